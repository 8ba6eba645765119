import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import type { OutboundResponse } from '../../../src/outbound/exchange.ts';
import { outboundError } from '../../../src/outbound/outbound-error.ts';
import { createBreaker, isBreakerOpen } from '../../../src/proxy/routing/breaker.ts';

describe('The breaker of an upstream', () => {
  const answer = (status: number) => async () => ({ status }) as OutboundResponse;
  const fail = (code: Parameters<typeof outboundError>[0]) => async (): Promise<OutboundResponse> => {
    throw outboundError(code);
  };

  async function isKeptAway(run: Promise<unknown>): Promise<boolean> {
    return run.then(() => false, isBreakerOpen);
  }

  for (const [what, call] of [
    ['answered with an error of the server', answer(500)],
    ['not answered in time', fail('timeout')],
    ['broken off', fail('reset')],
  ] as const) {
    it(`blocks an account whose requests are ${what} five times, and no other account`, async () => {
      const breaker = createBreaker();
      for (let i = 0; i < 5; i += 1) await breaker.run('usr_bad', call).catch(() => {});

      expect(await isKeptAway(breaker.run('usr_bad', answer(200)))).to.equal(true);
      expect(await isKeptAway(breaker.run('usr_2', answer(200)))).to.equal(false);
    });
  }

  it('blocks every account when no connection can be made, whoever asked', async () => {
    const breaker = createBreaker();
    for (let i = 0; i < 5; i += 1) await breaker.run(`usr_${i}`, fail('connect_refused')).catch(() => {});

    expect(await isKeptAway(breaker.run('usr_new', answer(200)))).to.equal(true);
  });

  it('gives every admitted call its own answer, however many fail at the same time', async () => {
    const breaker = createBreaker();
    const calls = Array.from({ length: 12 }, (_, i) =>
      breaker.run('usr_1', async () => {
        for (let turn = 0; turn < i; turn += 1) await nextTurn();
        return { status: 500 } as OutboundResponse;
      }),
    );

    expect((await Promise.all(calls)).map(({ status }) => status)).to.deep.equal(Array(12).fill(500));
    expect(await isKeptAway(breaker.run('usr_1', answer(200)))).to.equal(true);
  });

  it('counts only failures in a row', async () => {
    const breaker = createBreaker();
    for (let i = 0; i < 12; i += 1) await breaker.run('usr_1', answer(i % 4 === 3 ? 200 : 500));

    expect(await isKeptAway(breaker.run('usr_1', answer(200)))).to.equal(false);
  });
});
