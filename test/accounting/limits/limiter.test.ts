import { setTimeout as sleep } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { createLimiter } from '../../../src/accounting/limiter.ts';
import { MinuteCounters, Sharing } from '../../../src/accounting/minute-counters.ts';
import { createAccountingModels, type RateDocument, type RateModel } from '../../../src/accounting/model.ts';
import type { GatewayError, LimitOptions } from '../../../src/index.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

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

  it('says it to the clients of messages by the names that they read, too', () => {
    const admit = limiter({ perKey: { requestsPerMinute: 1, tokensPerMinute: 50 } });
    const expected = {
      'x-ratelimit-limit-requests': '1',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '12.5s',
      'anthropic-ratelimit-requests-limit': '1',
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:01:00.000Z',
      'anthropic-ratelimit-tokens-limit': '50',
      'anthropic-ratelimit-tokens-remaining': '40',
      'anthropic-ratelimit-tokens-reset': '2026-01-01T00:01:00.000Z',
    };
    expect(admit(alice, 10, {}, '/messages')?.headers).to.include(expected);
    expect(refusal(() => admit(alice, 10, {}, '/messages')).headers).to.include(expected);
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

const sharer = { userId: 'usr_a' };
const now = () => 1_767_225_600_000;

describe('rate limits that processes share', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let rates: RateModel;
  let collection: ReturnType<typeof durableCollection<RateDocument>>;

  function start(owner: string, { requestsPerMinute = 10, interval = 60_000 } = {}) {
    const exchanges: number[] = [];
    const watched: typeof collection = Object.assign(Object.create(collection), {
      find(...args: Parameters<(typeof collection)['find']>) {
        exchanges.push(performance.now());
        return collection.find(...args);
      },
    });
    const tallies = new MinuteCounters();
    const options = { perUser: { requestsPerMinute, tokensPerMinute: 100 * requestsPerMinute } };
    const sharing = new Sharing({ rates: watched, counters: tallies, owner, interval, logger: silentLogger });
    const onCounted = (isNear: boolean) => sharing.counted(isNear);
    const onRefused = () => onCounted(true);
    const admit = createLimiter({ options, counters: tallies, onCounted, onRefused, now });
    return { admit, exchanges, counted: onCounted, exchange: () => sharing.exchange(), stop: () => sharing.stop() };
  }

  beforeEach(async () => {
    database = await freshDatabase();
    rates = createAccountingModels(database.connection, 'gateway_').rates;
    await rates.createIndexes();
    collection = durableCollection(rates);
  });
  afterEach(() => database.drop());

  it('count the requests and tokens of all processes together', async () => {
    const [one, two] = [start('wrk_1'), start('wrk_2')];
    for (let i = 0; i < 6; i += 1) one.admit(sharer, 100);
    await one.exchange();
    expect(two.admit(sharer, 50)?.headers).to.include({ 'x-ratelimit-remaining-requests': '9' });
    await two.exchange();
    expect(two.admit(sharer, 50)?.headers).to.include({
      'x-ratelimit-remaining-requests': '2',
      'x-ratelimit-remaining-tokens': '300',
    });
    two.admit(sharer, 0);
    two.admit(sharer, 0);
    expect(() => two.admit(sharer, 0)).to.throw(/10 requests per minute/);
  });

  it('send their total counts, so that a repeated exchange counts once', async () => {
    const [one, two] = [start('wrk_1'), start('wrk_2')];
    one.admit(sharer, 1);
    await one.exchange();
    one.admit(sharer, 1);
    await one.exchange();
    two.admit(sharer, 1);
    await two.exchange();
    expect(two.admit(sharer, 1)?.headers).to.include({ 'x-ratelimit-remaining-requests': '6' });
  });

  it('are exchanged at once after a pause, soon where little is left, seldom where much is, and not without calls', async () => {
    const interval = 100;
    const near = start('wrk_1', { requestsPerMinute: 10, interval });
    const far = start('wrk_2', { requestsPerMinute: 1_000, interval });
    for (const calls of [1, 2]) {
      far.admit(sharer, 1);
      near.admit(sharer, 1);
      await until(() => far.exchanges.length === calls && near.exchanges.length === calls);
    }
    const [[nearFirst = 0, nearSecond = 0], [farFirst = 0, farSecond = 0]] = [near.exchanges, far.exchanges];
    // timers count whole milliseconds
    expect(nearSecond - nearFirst).to.be.at.least(interval - 2);
    expect(farSecond - farFirst).to.be.at.least(1_000 - 2);
    expect(nearSecond).to.be.below(farSecond);
    // shows that nothing happens
    await sleep(2 * interval);
    expect(near.exchanges).to.have.length(2);
    await Promise.all([far.stop(), near.stop()]);
  });

  it('are exchanged soon once the others do not know of a hundredth of what is left', async () => {
    const nearness: boolean[] = [];
    const counters = new MinuteCounters();
    const options = { perUser: { requestsPerMinute: 1_000, tokensPerMinute: 50_000 } };
    const admit = createLimiter({
      options,
      counters,
      onCounted: (isNear) => nearness.push(isNear),
      onRefused() {},
      now,
    });
    for (let i = 0; i < 9; i += 1) admit(sharer, 1);
    expect(nearness).to.not.include(true);
    const tenth = admit(sharer, 1);
    expect(nearness.splice(0).at(-1)).to.equal(true);
    counters.of('user:usr_a', now()).told = { requests: 10, tokens: 10 };
    tenth?.closed({ inputTokens: 400, outputTokens: 0 });
    expect(nearness.at(-1)).to.equal(false);
    admit(sharer, 100);
    expect(nearness.at(-1)).to.equal(true);
  });

  it('are exchanged soon where tokens are given back, or much is used in a later minute, or many processes may have used it', async () => {
    const nearness: boolean[] = [];
    const counters = new MinuteCounters();
    let at = now();
    const admit = createLimiter({
      options: { perUser: { tokensPerMinute: 50_000 } },
      counters,
      onCounted: (isNear) => nearness.push(isNear),
      onRefused() {},
      now: () => at,
    });
    const counter = counters.of('user:usr_a', at);
    const [dropped, late] = [admit(sharer, 1_000), admit(sharer, 1)];
    counter.told = { requests: 2, tokens: 1_001 };
    dropped?.dropped();
    expect(nearness.at(-1), 'given back').to.equal(true);
    counter.told = { requests: 2, tokens: 1 };
    admit(sharer, 100);
    expect(nearness.at(-1)).to.equal(false);
    counter.processes = 10;
    admit(sharer, 1);
    expect(nearness.at(-1), 'ten processes').to.equal(true);
    at += 60_000;
    late?.closed({ inputTokens: 501, outputTokens: 0 });
    expect(nearness.at(-1), 'a later minute').to.equal(true);
    counters.of('user:usr_a', at).told = { requests: 0, tokens: 500 };
    dropped?.closed({ inputTokens: 0, outputTokens: 0 });
    expect(nearness.at(-1), 'nothing new in it').to.equal(false);
  });

  it('are told to the others when a process ends', async () => {
    const one = start('wrk_1', { requestsPerMinute: 1_000 });
    one.admit(sharer, 1);
    await until(() => one.exchanges.length === 1);
    one.admit(sharer, 1);
    await one.stop();
    const [document] = await rates.find().lean();
    expect(document?.used).to.deep.equal({ wrk_1: { requests: 2, tokens: 2 } });
  });

  it('are told when a process ends also while they are exchanged, or after that has failed, and nothing is exchanged later', async () => {
    const bulkWrite = collection.bulkWrite.bind(collection);
    for (const fails of [false, true]) {
      const one = start(`wrk_${fails}`, { requestsPerMinute: 1_000, interval: 10 });
      let goOn = () => {};
      collection.bulkWrite = async (...args) => {
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
        if (fails) throw new Error('no primary');
        return bulkWrite(...args);
      };
      const before = goOn;
      one.admit(sharer, 1);
      await until(() => goOn !== before);
      one.admit(sharer, 1);
      const stopped = one.stop();
      collection.bulkWrite = bulkWrite;
      goOn();
      await stopped;
      const { length } = one.exchanges;
      const [document] = await rates.find().lean();
      expect(document?.used).to.deep.include({ [`wrk_${fails}`]: { requests: 2, tokens: 2 } });
      one.admit(sharer, 1);
      one.counted(true);
      // shows that nothing happens
      await sleep(50);
      expect(one.exchanges).to.have.length(length);
    }
  });

  it('leave the database its pause, however slow it is', async () => {
    const interval = 100;
    const one = start('wrk_1', { interval });
    const ended: number[] = [];
    const began: number[] = [];
    const bulkWrite = collection.bulkWrite.bind(collection);
    collection.bulkWrite = async (...args) => {
      began.push(performance.now());
      // the database takes so long
      await sleep(2 * interval);
      const result = await bulkWrite(...args);
      ended.push(performance.now());
      return result;
    };
    let calls = 0;
    const calling = setInterval(() => one.admit({ userId: `usr_${calls++}` }, 1), 10);
    await until(() => ended.length === 3);
    clearInterval(calling);
    await one.stop();
    for (let i = 1; i < 3; i += 1) expect((began[i] ?? 0) - (ended[i - 1] ?? 0)).to.be.at.least(interval - 2);
  });

  it('still apply in each process while the database is away, and are told afterwards', async () => {
    const one = start('wrk_1', { interval: 10 });
    const bulkWrite = collection.bulkWrite.bind(collection);
    let failed = 0;
    collection.bulkWrite = async () => {
      failed += 1;
      throw new Error('no primary');
    };
    for (let i = 0; i < 10; i += 1) one.admit(sharer, 1);
    await until(() => failed === 1);
    expect(() => one.admit(sharer, 1)).to.throw(/10 requests per minute/);
    await until(() => failed === 2);
    collection.bulkWrite = bulkWrite;
    one.admit({ userId: 'usr_b' }, 1);
    await until(async () => (await rates.countDocuments()) === 2);
    await one.stop();
  });
});
