import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createPurses, type Purses } from '../../src/credits/purses.ts';

describe('what processes agree on of an account', () => {
  let wanted: number[];
  let asked: (readonly string[])[];
  let free: number;
  let purses: Purses;

  beforeEach(() => {
    wanted = [];
    asked = [];
    free = Number.POSITIVE_INFINITY;
    purses = createPurses({
      ledger: {
        async booked(ids) {
          asked.push(ids);
          return [];
        },
      },
      setAside: async (_userId, amount) => {
        wanted.push(amount);
        return { amount: Math.min(amount, free), balance: 1_000 };
      },
      slice: 10,
      interval: 5_000,
      logger: { info() {}, warn() {}, error() {} },
    });
  });
  afterEach(() => purses.close());

  it('is agreed on at once, and then no more often than twenty times a second, however much is asked for', async () => {
    const started = performance.now();
    while (performance.now() - started < 260) {
      purses.touch('usr_1');
      await sleep(1);
    }
    const most = 2 + Math.floor((performance.now() - started) / 50);
    expect(wanted.length).to.be.within(2, most);
  });

  it('is agreed on once more for what was asked for in between', async () => {
    purses.touch('usr_1');
    purses.of('usr_1').hold(7);
    purses.touch('usr_1');
    expect(wanted).to.deep.equal([10]);
    while (wanted.length < 2) await sleep(1);
    expect(wanted).to.deep.equal([10, 17]);
  });

  it('leaves out what was charged in this process, without asking', async () => {
    const purse = purses.of('usr_1');
    purse.spend(0, 'use_1', 3);
    purse.spend(0, 'use_2', 4);
    purses.booked([
      { _id: 'use_1', userId: 'usr_1' },
      { _id: 'use_3', userId: 'usr_1' },
      { _id: 'use_4', userId: 'usr_2' },
    ]);
    await purses.refresh('usr_1');
    expect({ spokenFor: purse.spokenFor, wanted, asked }).to.deep.equal({ spokenFor: 4, wanted: [14], asked: [] });
  });

  it('is asked about every call where there is less than was wanted', async () => {
    free = 5;
    purses.of('usr_1').spend(0, 'use_1', 3);
    await purses.refresh('usr_1');
    await purses.refresh('usr_1');
    expect(asked).to.deep.equal([['use_1'], ['use_1'], ['use_1']]);
  });

  it('is given back when a process closes, but for what it has spent and nobody has charged yet', async () => {
    purses.touch('usr_1');
    const purse = purses.of('usr_1');
    purse.hold(4);
    purse.spend(4, 'use_1', 3);
    await purses.close();
    expect(wanted).to.deep.equal([10, 3]);
  });
});
