import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { createPeriodic, type Periodic, type PeriodicOptions, withTimeout } from '../../src/mongo/periodic.ts';
import { forkCompiled } from '../support/processes/compiled-script.ts';
import { until } from '../support/until.ts';

/** A task whose runs a test ends as it likes. */
function scriptedTask() {
  const runs: { startedAt: number; end: () => void; fail: () => void }[] = [];
  const waiting: { count: number; tell: () => void }[] = [];
  return {
    runs,
    task: () =>
      new Promise<void>((resolve, reject) => {
        runs.push({ startedAt: performance.now(), end: resolve, fail: () => reject(new Error('no luck')) });
        for (const { count, tell } of waiting) if (runs.length >= count) tell();
      }),
    /** Resolves when so many runs have begun. */
    async begun(count: number): Promise<void> {
      await new Promise<void>((resolve) => {
        if (runs.length >= count) resolve();
        else waiting.push({ count, tell: resolve });
      });
    },
  };
}

describe('A periodic task', () => {
  let script: ReturnType<typeof scriptedTask>;
  let warnings: string[];
  const started: Periodic[] = [];

  function create(options: Partial<PeriodicOptions> = {}): Periodic {
    const logger = { warn: (message: string) => void warnings.push(message) };
    const periodic = createPeriodic({ name: 'it', task: script.task, interval: 10, logger, ...options });
    started.push(periodic);
    return periodic;
  }

  function run(i: number) {
    const found = script.runs[i];
    if (!found) throw new Error(`there is no run ${i}`);
    return found;
  }

  beforeEach(() => {
    script = scriptedTask();
    warnings = [];
  });
  afterEach(async () => {
    const stopped = started.map((periodic) => periodic.stop());
    for (const { end } of script.runs) end();
    await Promise.all(stopped);
    started.length = 0;
  });

  it('tells of each run whether it succeeded, and how long it took', async () => {
    const runs: { outcome: string; took: number }[] = [];
    create({ onRun: (outcome, took) => void runs.push({ outcome, took }) }).start();
    await script.begun(1);
    // measures time: the run takes as long
    await sleep(20);
    run(0).end();
    await script.begun(2);
    run(1).fail();
    await script.begun(3);
    expect(runs.map(({ outcome }) => outcome)).to.deep.equal(['succeeded', 'failed']);
    expect(runs[0]?.took).to.be.within(15, 10_000);
    run(2).end();
  });

  it('goes on where whoever counts its runs throws', async () => {
    const onRun = (): never => {
      throw new Error('cannot count');
    };
    create({ onRun }).start();
    await script.begun(1);
    run(0).end();
    await script.begun(2);
    run(1).end();
    expect(warnings).to.deep.equal(['a run of it could not be counted']);
  });

  it('runs at once, and again one interval after it has ended', async () => {
    create({ interval: 50 }).start();
    expect(script.runs).to.have.lengthOf(1);
    // longer than the interval
    await sleep(60);
    const endedAt = performance.now();
    run(0).end();
    await script.begun(2);
    expect(run(1).startedAt - endedAt).to.be.at.least(48);
  });

  it('runs first after its initial delay', async () => {
    const startedAt = performance.now();
    create({ initialDelay: 40 }).start();
    expect(script.runs).to.have.lengthOf(0);
    await script.begun(1);
    expect(run(0).startedAt - startedAt).to.be.at.least(38);
  });

  it('asks for its interval anew after each run', async () => {
    const asked: number[] = [];
    create({ interval: () => asked.push(0) }).start();
    for (let i = 0; i < 3; i += 1) {
      await script.begun(i + 1);
      run(i).end();
    }
    await script.begun(4);
    expect(asked).to.have.lengthOf(3);
  });

  it('never runs twice at once, even on runNow or a second start', async () => {
    const periodic = create({ interval: 1 });
    periodic.start();
    periodic.start();
    periodic.runNow();
    const stopped = periodic.stop();
    periodic.start();
    // shows that nothing more happens
    await sleep(30);
    expect(script.runs).to.have.lengthOf(1);
    run(0).end();
    await stopped;
    await script.begun(2);
  });

  it('runs at once on runNow, and once more after a run that is under way', async () => {
    const periodic = create({ interval: 60_000 });
    periodic.start();
    periodic.runNow();
    run(0).end();
    await script.begun(2);
    run(1).end();
    // shows that nothing more happens
    await sleep(5);
    expect(script.runs).to.have.lengthOf(2);
    periodic.runNow();
    expect(script.runs).to.have.lengthOf(3);
  });

  it('stops when the run under way has ended, and begins no other', async () => {
    const periodic = create({ interval: 1 });
    periodic.start();
    periodic.runNow();
    let stopped = false;
    const stopping = periodic.stop().then(() => {
      stopped = true;
    });
    // shows that nothing more happens
    await sleep(10);
    expect(stopped).to.equal(false);
    run(0).end();
    await stopping;
    // shows that nothing more happens
    await sleep(10);
    expect(script.runs).to.have.lengthOf(1);
  });

  it('logs once while it fails, and again when it fails after a success', async () => {
    create({ interval: 1 }).start();
    for (const [i, succeeds] of [false, false, true, false].entries()) {
      await script.begun(i + 1);
      if (succeeds) run(i).end();
      else run(i).fail();
    }
    await script.begun(5);
    expect(warnings).to.deep.equal(Array(2).fill('it failed and will be tried again'));
  });

  it('may throw instead of rejecting, which is logged', async () => {
    create({
      task() {
        throw new Error('at once');
      },
    }).start();
    await until(() => warnings.length > 0);
    expect(warnings).to.have.lengthOf(1);
  });

  it('runs again when a run takes longer than longestRun, and logs that once', async () => {
    const startedAt = performance.now();
    create({ interval: 40, longestRun: 80 }).start();
    await script.begun(3);
    expect(performance.now() - startedAt).to.be.within(155, 8_000);
    expect(warnings).to.have.lengthOf(1);
  });

  it('runs again when a run takes longer than 9 s by default', async () => {
    create({ interval: 0 }).start();
    await script.begun(2);
    expect(run(1).startedAt - run(0).startedAt).to.be.within(8_900, 14_000);
  });

  it('does not keep its process alive', async () => {
    const child = await forkCompiled(fileURLToPath(new URL('./periodic-process.ts', import.meta.url)), undefined);
    const [code] = await once(child, 'exit');
    expect(code).to.equal(0);
  });
});

describe('An answer of the database', () => {
  it('is passed on, and so is an error', async () => {
    expect(await withTimeout(Promise.resolve(7))).to.equal(7);
    const refusal = new Error('refused');
    expect(await withTimeout(Promise.reject(refusal)).catch((error) => error)).to.equal(refusal);
  });

  it('is waited for no longer than the timeout', async () => {
    const error = await withTimeout(new Promise<never>(() => {}), 20).catch((reason) => reason);
    expect((error as Error).message).to.equal('the database has not answered within 0.02 s');
  });

  it('may be an error after the timeout, without an unhandled rejection', async () => {
    let refuse = (_: Error) => {};
    const late = new Promise<void>((_, reject) => {
      refuse = reject;
    });
    await withTimeout(late, 1).catch(() => {});
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.prependListener('unhandledRejection', note);
    refuse(new Error('too late'));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).to.deep.equal([]);
  });
});
