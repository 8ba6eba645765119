import { expect } from 'chai';
import { GatewayError } from '../../../src/index.ts';
import { createDatabaseAccess, createDatabaseBudget, undoneSoon } from '../../../src/mongo/connection/availability.ts';
import { TimeoutError } from '../../../src/mongo/periodic.ts';
import { databaseUnavailable } from '../../../src/mongo/unavailable.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

describe('work that needs the database', () => {
  it('is not started when its time has passed while it waited', async () => {
    const { connection, drop } = await freshDatabase();
    const access = createDatabaseAccess(connection, silentLogger);
    try {
      let begun = 0;
      const work = async () => {
        begun += 1;
      };
      const error = await access.run(work, 100, 100).catch((thrown) => thrown);
      expect(error).to.include({ code: 'database_unavailable' });
      expect(begun).to.equal(0);
      await access.run(work, 100, 99);
      expect(begun).to.equal(1);
    } finally {
      access.close();
      await drop();
    }
  });

  it('is refused a turn of the event loop later while there is no primary, so that a caller who repeats it at once blocks nothing', async () => {
    const { connection, drop } = await freshDatabase();
    const access = createDatabaseAccess(connection, silentLogger);
    const refused = () =>
      access
        .run(async () => {})
        .then(
          () => undefined,
          (error) => error.code,
        );
    try {
      const newDescription = { servers: new Map() };
      connection.getClient().emit('topologyDescriptionChanged', { newDescription } as never);
      await until(async () => (await refused()) === 'database_unavailable');
      let hasTurned = false;
      setImmediate(() => {
        hasTurned = true;
      });
      for (let i = 0; i < 10 && !hasTurned; i += 1) await refused();
      expect(hasTurned).to.equal(true);
    } finally {
      access.close();
      await drop();
    }
  });
});

describe('the steps of a request that share one time budget for the database', () => {
  /** A database that is gone when so many steps were done. */
  function goneAfter(steps: number) {
    let done = 0;
    return {
      async run<T>(work: () => Promise<T>): Promise<T> {
        if (done === steps) throw databaseUnavailable();
        done += 1;
        return work();
      },
    };
  }
  const step = async () => {};

  it('report that nothing was done when the first one could not start', async () => {
    const error = await createDatabaseBudget(goneAfter(0))
      .run(step)
      .catch((thrown) => thrown);
    expect(error.message).to.include('nothing was done');
  });

  it('report that a change may have been made when a later one could not start', async () => {
    const budget = createDatabaseBudget(goneAfter(1));
    await budget.run(step);
    const error = await budget.run(step).catch((thrown) => thrown);
    expect(error).to.include({ code: 'database_unavailable' });
    expect(error.message).to.include('may or may not have been made');
  });

  it('may wait together as long as one alone, and again after the budget is renewed', async () => {
    const left: number[] = [];
    const slow = {
      async run<T>(work: () => Promise<T>, most = 0, waited = 0): Promise<T> {
        left.push(Math.round((most - waited) / 100));
        return work();
      },
    };
    const budget = createDatabaseBudget(slow);
    const wait = () => new Promise((resolve) => setTimeout(resolve, 200));
    await budget.run(wait);
    await budget.run(step);
    budget.renew();
    await budget.run(step);
    expect(left[0]).to.equal(30);
    expect(left[1]).to.be.below(29);
    expect(left[2]).to.equal(30);
  });
});

describe('a transaction of documents that others wait for', () => {
  const timedOut = new TimeoutError('the database has not answered in time');
  const unconfirmed = new GatewayError('publish_unconfirmed', 'the commit is unknown', { cause: timedOut });

  /** Runs one whose first tries fail so. @returns the time that each try got. Milliseconds */
  async function triesOf(failures: readonly Error[], within?: number): Promise<number[]> {
    const times: number[] = [];
    const run = undoneSoon(async (fn, time = Number.NaN) => {
      times.push(Math.round(time));
      const failure = failures[times.length - 1];
      if (failure) throw failure;
      return fn(undefined);
    });
    expect(await run(async () => 'done', within)).to.equal('done');
    return times;
  }

  it('is undone soon and run again with more time, also where it had published something', async () => {
    expect(await triesOf([])).to.deep.equal([2_500]);
    expect(await triesOf([timedOut, unconfirmed])).to.deep.equal([2_500, 10_000, 40_000]);
  });

  it('is not run again once its time is over, or for another reason', async () => {
    const failed = new Error('refused');
    expect(await triesOf([failed]).catch((error) => error)).to.equal(failed);
    expect(await triesOf([unconfirmed], 1_000).catch((error) => error)).to.equal(unconfirmed);
  });
});
