import fc from 'fast-check';
import { freshDatabase } from '../support/mongo.ts';
import { createRun, kinds, type Step } from './interleavings-run.ts';
import { startReceiver, type TestReceiver } from './receiver.ts';

const mostly = fc.integer({ min: 0, max: 3 }).map((n) => n > 0);
const step = fc.record<Step>({
  kind: fc.constantFrom(
    ...Object.entries(kinds).flatMap(([kind, weight]) => Array<Step['kind']>(weight).fill(kind as Step['kind'])),
  ),
  process: fc.nat(2),
  pick: fc.nat(11),
  ok: fc.boolean(),
  hasRoom: mostly,
  isWorking: mostly,
});
const publish: Step = { kind: 'publish', process: 0, pick: 0, ok: true, hasRoom: true, isWorking: true };
const script = fc.array(step, { minLength: 10, maxLength: 50 }).map((steps) => [publish, ...steps]);
/** What each webhook answers in the end. */
const answers = fc.tuple(fc.boolean(), fc.boolean());

describe('Deliveries, whatever happens to the processes that make them, and in whatever order', function () {
  this.timeout(180_000);
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let receiver: TestReceiver;

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.stop();
    await database.drop();
  });

  it('are as a simple model says: each ends once, none is lost, and whoever comes second changes nothing', async () => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(script, answers, async (steps, last) => {
        runs += 1;
        const run = createRun(database.connection, `run${runs}_`, receiver);
        try {
          for (const one of steps) await run.take(one);
          await run.finish(last);
        } finally {
          await run.close();
        }
      }),
      { numRuns: 25 },
    );
  });
});
