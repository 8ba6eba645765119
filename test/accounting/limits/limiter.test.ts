import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { createLimiter } from '../../../src/accounting/limiter.ts';
import { MinuteCounters } from '../../../src/accounting/minute-counters.ts';
import type { GatewayError, LimitOptions } from '../../../src/index.ts';

const alice = { userId: 'usr_a', keyId: 'key_1' };
const aliceToo = { userId: 'usr_a', keyId: 'key_2' };

describe('a rate limit', () => {
  let now: number;
  let refused: [userId: string, limit: number][];

  const limiter = (options: LimitOptions) =>
    createLimiter({
      options,
      counters: new MinuteCounters(),
      onRefused: ({ userId }, limit) => refused.push([userId, limit]),
      now: () => now,
    });

  const refusal = (call: () => unknown): GatewayError => {
    try {
      call();
    } catch (error) {
      return error as GatewayError;
    }
    throw new Error('the call should have been refused');
  };

  beforeEach(() => {
    now = 1_767_225_600_000 + 47_500;
    refused = [];
  });

  it('allows a key its calls per minute, and says how many are left', () => {
    const admit = limiter({ perKey: { requestsPerMinute: 2 } });
    expect(admit(alice, 10)?.headers).to.deep.equal({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '12.5s',
    });
    admit(alice, 10);
    const error = refusal(() => admit(alice, 10));
    expect(error).to.include({ code: 'rate_limit_exceeded', status: 429 });
    expect(error.headers).to.include({ 'retry-after': '13', 'retry-after-ms': '12500' });
    expect(error.headers).to.include({ 'x-ratelimit-remaining-requests': '0' });
    expect(refused).to.deep.equal([['usr_a', 2]]);
    expect(admit(aliceToo, 10)).to.not.equal(undefined);
    now += 12_500;
    expect(admit(alice, 10)?.headers['x-ratelimit-remaining-requests']).to.equal('1');
  });

  it('counts the calls of all keys of an account, and no refused call', () => {
    const admit = limiter({ perKey: { requestsPerMinute: 3 }, perUser: { requestsPerMinute: 2 } });
    admit(alice, 1);
    expect(admit(aliceToo, 1)?.headers).to.include({ 'x-ratelimit-limit-requests': '2' });
    for (let i = 0; i < 5; i += 1)
      expect(refusal(() => admit(alice, 1)).message).to.contain('2 requests per minute for this account');
    expect(refused).to.have.length(5);
  });

  it('counts tokens by estimate while a call runs, and by actual use once it has ended', () => {
    const admit = limiter({ perUser: { tokensPerMinute: 100 } });
    const first = admit(alice, 40);
    expect(first?.headers['x-ratelimit-remaining-tokens']).to.equal('60');
    first?.closed({ inputTokens: 10, outputTokens: 20 });
    const second = admit(alice, 5);
    expect(second?.headers['x-ratelimit-remaining-tokens']).to.equal('65');
    second?.dropped();
    admit(alice, 0)?.closed({ inputTokens: 50, outputTokens: 50 });
    expect(refusal(() => admit(alice, 1)).headers['x-ratelimit-remaining-tokens']).to.equal('0');
    expect(refused).to.deep.equal([['usr_a', 100]]);
  });

  it('counts the tokens beyond the estimate in the minute in which a long call ends', () => {
    const admit = limiter({ perUser: { tokensPerMinute: 100 } });
    const long = admit(alice, 10);
    const dropped = admit(alice, 10);
    now += 60_000;
    dropped?.dropped();
    long?.closed({ inputTokens: 10, outputTokens: 70 });
    expect(admit(alice, 0)?.headers['x-ratelimit-remaining-tokens']).to.equal('30');
  });

  it('may differ from one principal to the next, or be absent', () => {
    const admit = limiter({
      perUser: ({ userId }) => (userId === 'usr_a' ? { requestsPerMinute: 1 } : undefined),
      perKey: { requestsPerMinute: 1 },
    });
    admit(alice, 1);
    refusal(() => admit(aliceToo, 1));
    expect(admit({ userId: 'usr_b' }, 1)).to.equal(undefined);
  });

  it('throws when the function that returns it is async', () => {
    for (const perUser of [async () => ({ requestsPerMinute: 1 }), () => runInNewContext('Promise.reject(1)')]) {
      const admit = limiter({ perUser: perUser as never });
      expect(() => admit(alice, 1)).to.throw(/must not be async/);
    }
  });
});
