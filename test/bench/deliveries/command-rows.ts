import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../report.ts';
import { type Command, type Start, startCommand, userId } from './command.ts';
import { evenly, insert, insertRate, ping } from './floors.ts';
import type { Notes } from './notes.ts';
import { addRate, rateRows } from './rates.ts';
import * as rows from './rows.ts';
import { type Groups, type Run, thousands } from './run.ts';

/** The stand-alone command as it is started in one way, and where what is measured of it is noted. */
interface Subject {
  readonly run: Run;
  /** @param before a command that has ended, whose database this one takes. @default a database of its own */
  start(variables?: Start['variables'], before?: Command): Promise<Command>;
  readonly note: Notes['add'];
}

/** Ways to start the command, by the names that their figures get. */
type Starts = Readonly<Record<string, Start>>;

/** What the database takes of as many inserts as there are publishers: the floor of what they reach. */
async function measureInserts({ run: { setup, some }, note }: Subject): Promise<number> {
  const rate = await insertRate(setup.connection, some(5_000), rows.publishers);
  note(`inserts with majority write concern, ${rows.publishers} at a time`, '/s', rate);
  return rate;
}

/** The first 10,000 deliveries of a process include what Node compiles and the pools open; by the next it is warm. */
async function measureRates(subject: Subject): Promise<void> {
  const { run, start, note } = subject;
  const { setup, some, newUser } = run;
  const floor = await measureInserts(subject);
  for (const { row, webhooks } of rateRows) {
    const command = await start();
    try {
      await command.subscribe(setup.urls(newUser(), webhooks));
      const measure = () => rows.rate(setup, command.usage, command.target, userId, some(10_000) / webhooks, webhooks);
      const cold = await measure();
      const warm = await measure();
      addRate(note, `${row}, just started`, cold);
      addRate(note, row, warm);
      note(`${row}, just started / warm`, 'times', cold.rate / warm.rate);
      note(`${row}, deliveries / inserts`, 'times', warm.rate / floor);
      note(`${row}: peak memory`, 'MB', await command.peakMemory());
    } finally {
      await command.end();
    }
  }
}

/** Publishing with nobody to deliver leaves what is drained. */
async function measureBacklog(subject: Subject): Promise<void> {
  const { run, start, note } = subject;
  const { setup, newUser } = run;
  const waiting = run.quick ? 5_000 : 10_000;
  const floor = await measureInserts(subject);
  const publisher = await start({ ROLE: 'api' });
  try {
    await publisher.subscribe(setup.urls(newUser(), 1));
    const rate = await rows.publishAlone(setup, publisher.target, userId, waiting);
    note('publish alone over HTTP, one webhook', 'events/s', rate);
    note('publish alone / inserts', 'times', rate / floor);
  } finally {
    await publisher.end();
  }
  const worker = await start({}, publisher);
  try {
    const times = (await setup.arrivals(waiting)).map(({ at }) => at);
    const row = `${thousands(waiting)} waiting`;
    note(`${row}, from the first arrival to the last`, 's', (Math.max(...times) - Math.min(...times)) / 1_000);
    note(`${row}, drained: peak memory`, 'MB', await worker.peakMemory());
  } finally {
    await worker.end();
  }
}

/** The rates of an ordinary day: how many events at each, and how many calls of the database alone, if any. */
const paces = [
  { perSecond: 1, events: 15, quickly: 5, calls: 0 },
  { perSecond: 10, events: 100, quickly: 50, calls: 60 },
  { perSecond: 50, events: 250, quickly: 100, calls: 0 },
  { perSecond: 200, events: 1_000, quickly: 400, calls: 400 },
] as const;

async function measurePace({ run, note }: Subject, command: Command, pace: (typeof paces)[number]): Promise<void> {
  const { perSecond, events, quickly, calls } = pace;
  const { setup, quick } = run;
  const count = quick ? quickly : events;
  const row = `${perSecond} events a second`;
  const cost = await rows.meter(command.usage);
  const { answer, arrival } = await rows.delays(setup, command.target, userId, count, perSecond);
  const each = await cost(count);
  const wait = percentile(answer, 50);
  note(`${row}, a publisher's wait, p50`, 'ms', wait);
  note(`${row}, a publisher's wait, p99`, 'ms', percentile(answer, 99));
  note(`${row}, published to first byte, p50`, 'ms', percentile(arrival, 50));
  note(`${row}, published to first byte, p99`, 'ms', percentile(arrival, 99));
  note(`${row}, each: CPU of the gateway`, 'ms', each.cpu);
  note(`${row}, each: CPU of mongod`, 'ms', each.mongod);
  note(`${row}, each: requests to the database`, '', each.requests);
  note(`${row}, each: writes of the gateway`, '', each.writes);
  note(`${row}, each: bytes written by the gateway`, 'KB', each.bytes / 1_000);
  note(`${row}, each: times main threads were woken`, '', each.wakes);
  if (calls === 0) return;
  const inserts = await evenly(() => insert(setup.connection), calls, perSecond);
  const pings = await evenly(() => ping(setup.connection), calls, perSecond);
  note(`${perSecond} inserts with majority write concern a second, p50`, 'ms', percentile(inserts, 50));
  note(`${perSecond} pings a second, p50`, 'ms', percentile(pings, 50));
  note(`${row}, a publisher's wait / an insert, p50`, 'times', wait / percentile(inserts, 50));
}

/** What a publisher waits for, and what an event takes that comes alone, and a second without events. */
async function measurePublisher(subject: Subject): Promise<void> {
  const { run, start, note } = subject;
  const { setup, quick, some, newUser } = run;
  const command = await start();
  try {
    await command.subscribe(setup.urls(newUser(), 1));
    // until it is warm
    await rows.rate(setup, command.usage, command.target, userId, some(5_000), 1);
    for (const pace of paces) await measurePace(subject, command, pace);
    const seconds = quick ? 5 : 10;
    const cost = await rows.meter(command.usage);
    await sleep(seconds * 1_000);
    const each = await cost(seconds);
    note('an idle second: CPU of the gateway', 'ms', each.cpu);
    note('an idle second: CPU of mongod', 'ms', each.mongod);
    note('an idle second: requests to the database', '', each.requests);
  } finally {
    await command.end();
  }
}

/**
 * The stand-alone command, as its users start it: what it delivers from its first event on and once it is warm, what a
 * publisher waits for, and what it takes.
 * @param against the file of another checkout's command, which takes turns with this one's
 */
export function commandRows(run: Run, against?: string): Groups {
  const { setup, notes } = run;

  /** Measures each start, in every second round the last one first, and what the first comes to in multiples of the second. */
  async function inTurns(starts: Starts, round: number, measure: (subject: Subject) => Promise<void>): Promise<void> {
    const figures = new Set<string>();
    const named = (figure: string, name: string) => (name === '' ? figure : `${figure}, ${name}`);
    const ordered = Object.entries(starts);
    for (const [name, one] of round % 2 === 0 ? ordered : ordered.toReversed()) {
      await measure({
        run,
        start: (variables, before) =>
          startCommand(setup, { ...one, variables: { ...one.variables, ...variables } }, before),
        note(figure, unit, value) {
          figures.add(figure);
          notes.add(named(figure, name), unit, value);
        },
      });
    }
    const [first = '', second] = Object.keys(starts);
    if (second === undefined) return;
    for (const figure of figures) {
      notes.addRatio(named(figure, `${first} / ${second}`), named(figure, first), named(figure, second));
    }
  }

  const asItStarts: Starts = against === undefined ? { '': {} } : { here: {}, there: { script: against } };
  const perCore: Starts = {
    'WORKERS=auto': { variables: { WORKERS: 'auto' } },
    'WORKERS=1': { variables: { WORKERS: '1' } },
  };
  return {
    rates: (round) => inTurns(asItStarts, round, measureRates),
    backlog: (round) => inTurns(asItStarts, round, measureBacklog),
    publisher: (round) => inTurns(asItStarts, round, measurePublisher),
    async processes(round) {
      for (const measure of [measureRates, measureBacklog, measurePublisher]) await inTurns(perCore, round, measure);
    },
  };
}
