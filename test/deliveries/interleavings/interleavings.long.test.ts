import fc from 'fast-check';
import { freshDatabase } from '../../support/mongo.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';
import { createRun, kinds, type Step } from './run.ts';

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
/** Steps that chance alone seldom makes in this order: with the same event or delivery, each by the next process. */
const inTurn = (...turns: Step['kind'][]) =>
  step.map((one) => turns.map((kind, i) => ({ ...one, kind, process: (one.process + i) % 3 })));
const part = fc.oneof(
  { weight: 20, arbitrary: step.map((one) => [one]) },
  { weight: 1, arbitrary: inTurn('send', 'answer while stored') },
  { weight: 1, arbitrary: inTurn('attempt lapses', 'two claims') },
  { weight: 1, arbitrary: inTurn('attempt lapses', 'claim', 'attempt lapses', 'claim', 'renew') },
  { weight: 1, arbitrary: inTurn('event lapses', 'take and stop', 'renew events') },
  { weight: 1, arbitrary: inTurn('event lapses', 'take and stop', 'event lapses', 'renew events') },
);
const script = fc.array(part, { minLength: 10, maxLength: 50 }).map((parts) => [publish, ...parts.flat()]);
/** What each webhook answers in the end. */
const answers = fc.tuple(fc.boolean(), fc.boolean());

describe('Deliveries, in any order of the steps and failures of their processes', function () {
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

  it('match a simple model: each ends once, none is lost, and a second outcome changes nothing', async () => {
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
