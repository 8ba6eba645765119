import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Allowances } from '../../../src/accounting/allowances.ts';
import { silentLogger } from '../../support/logger.ts';
import { until } from '../../support/until.ts';

describe('the credit allowance of an account in one process', () => {
  let wanted: number[];
  let asked: (readonly string[])[];
  let free: number;
  let silence: Promise<{ amount: number; balance: number }> | undefined;
  let allowances: Allowances;

  /** @param times milliseconds */
  function start(times: { readonly interval: number; readonly leaseDuration: number }): Allowances {
    return new Allowances({
      ledger: {
        async booked(ids) {
          asked.push(ids);
          return [];
        },
      },
      renewLease: async (_userId, amount) => {
        wanted.push(amount);
        if (silence) return silence;
        return { amount: Math.min(amount, free), balance: 1_000 };
      },
      leaseAmount: 10,
      ...times,
      logger: silentLogger,
    });
  }

  beforeEach(() => {
    wanted = [];
    asked = [];
    free = Number.POSITIVE_INFINITY;
    silence = undefined;
    allowances = start({ interval: 5_000, leaseDuration: 25_000 });
  });
  afterEach(() => allowances.close());

  it('is renewed at once, and then at most twenty times a second', async () => {
    const started = performance.now();
    while (performance.now() - started < 260 || wanted.length < 2) {
      allowances.renewSoon('usr_1');
      // pauses for a millisecond between two renewals that it asks for
      await sleep(1);
    }
    const most = 2 + Math.floor((performance.now() - started) / 50);
    expect(wanted.length).to.be.at.most(most);
  });

  it('is renewed once more for credits that were reserved in between', async () => {
    await allowances.ensureCurrent('usr_1');
    allowances.of('usr_1').reserve(7);
    allowances.renewSoon('usr_1');
    expect(wanted).to.deep.equal([10]);
    await until(() => wanted.length >= 2);
    expect(wanted).to.deep.equal([10, 17]);
  });

  it('frees what this process has charged, without asking the database', async () => {
    const allowance = allowances.of('usr_1');
    allowance.spend(0, 'use_1', 3);
    allowance.spend(0, 'use_2', 4);
    allowances.settle([
      { _id: 'use_1', userId: 'usr_1' },
      { _id: 'use_3', userId: 'usr_1' },
      { _id: 'use_4', userId: 'usr_2' },
    ]);
    await allowances.refresh('usr_1');
    expect({ reserved: allowance.reserved, wanted, asked }).to.deep.equal({ reserved: 4, wanted: [14], asked: [] });
  });

  it('looks up every unbooked call when the lease is smaller than wanted', async () => {
    free = 5;
    allowances.of('usr_1').spend(0, 'use_1', 3);
    await allowances.refresh('usr_1');
    await allowances.refresh('usr_1');
    expect(asked).to.deep.equal([['use_1'], ['use_1'], ['use_1']]);
  });

  it('is renewed again after 2 s without an answer, and ignores the late answer', async () => {
    await allowances.ensureCurrent('usr_1');
    const allowance = allowances.of('usr_1');
    allowance.reserve(10);
    let answerLate = (_own: { amount: number; balance: number }) => {};
    silence = new Promise((resolve) => {
      answerLate = resolve;
    });
    const started = performance.now();
    allowances.renewSoon('usr_1');
    await until(() => wanted.length >= 2);
    expect(allowances.isOverdue('usr_1'), 'at once').to.equal(false);
    await until(() => allowances.isOverdue('usr_1'));
    expect(allowance.reserve(1), 'without an answer').to.equal(false);
    silence = undefined;
    while (wanted.length < 3) {
      allowances.renewSoon('usr_1');
      // asks again
      await sleep(1);
    }
    expect(performance.now() - started).to.be.at.least(1_900);
    await allowances.refresh('usr_1');
    expect(allowances.isOverdue('usr_1'), 'answered').to.equal(false);
    answerLate({ amount: 0, balance: 0 });
    // until the late answer would have been taken
    await sleep(1);
    expect(allowance.reserve(1)).to.equal(true);
    expect(allowance.isEmpty).to.equal(false);
  });

  it('is never more than it last asked for, even if the answer is lost', async () => {
    await allowances.ensureCurrent('usr_1');
    const allowance = allowances.of('usr_1');
    allowance.reserve(30);
    await allowances.refresh('usr_1');
    allowance.spend(30, 'use_1', 2);
    allowances.settle([{ _id: 'use_1', userId: 'usr_1' }]);
    silence = Promise.reject(new Error('the connection is gone'));
    await allowances.refresh('usr_1');

    expect(wanted).to.deep.equal([10, 60, 10]);
    // the database has set 10 aside of what is left after the 2 were charged
    let calls = 0;
    while (allowance.reserve(1)) calls += 1;
    expect(calls).to.equal(10);
  });

  it('is given back when the process closes, except what it has spent and not yet charged', async () => {
    await allowances.ensureCurrent('usr_1');
    const allowance = allowances.of('usr_1');
    allowance.reserve(4);
    allowance.spend(4, 'use_1', 3);
    await allowances.close();
    expect(wanted).to.deep.equal([10, 3]);
  });

  describe('while calls are under way', () => {
    const leaseDuration = 1_000;
    let brief: Allowances;
    let startedAt: number;

    beforeEach(async () => {
      brief = start({ interval: 10, leaseDuration });
      startedAt = performance.now();
      await brief.ensureCurrent('usr_1');
      brief.of('usr_1').reserve(1);
    });
    afterEach(() => brief.close());

    it('is renewed only when half of its time is over, if enough is left', async () => {
      await until(() => wanted.length === 2);
      expect(performance.now() - startedAt).to.be.at.least(leaseDuration / 2);
      expect(wanted).to.deep.equal([10, 11]);
    });

    it('is renewed soon if it still covers a burst that has been charged', async () => {
      const allowance = brief.of('usr_1');
      allowance.reserve(99);
      await brief.refresh('usr_1');
      expect(wanted).to.deep.equal([10, 200]);
      allowance.spend(99, 'use_1', 99);
      brief.settle([{ _id: 'use_1', userId: 'usr_1' }]);
      await until(() => wanted.length === 3);
      expect(performance.now() - startedAt).to.be.below(leaseDuration / 2);
      expect(wanted.at(-1)).to.equal(11);
    });

    it('is renewed again and again while it is smaller than wanted', async () => {
      free = 5;
      await brief.refresh('usr_1');
      await until(() => wanted.length >= 5);
      expect(performance.now() - startedAt).to.be.below(leaseDuration / 2);
    });

    it('is renewed again and again while its renewals fail', async () => {
      silence = Promise.reject(new Error('the connection is gone'));
      await brief.refresh('usr_1');
      await until(() => wanted.length >= 5);
      expect(performance.now() - startedAt).to.be.below(leaseDuration / 2);
    });

    it('is renewed once more when the last call has been charged', async () => {
      const allowance = brief.of('usr_1');
      allowance.spend(1, 'use_1', 1);
      brief.settle([{ _id: 'use_1', userId: 'usr_1' }]);
      await until(() => allowance.reserved === 0);
      expect(performance.now() - startedAt).to.be.below(leaseDuration / 2);
    });
  });
});
