import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { createGateway } from '../../support/gateway.ts';
import { connectionTimes } from '../../support/mongo.ts';
import type { Direction, LinkKind } from '../../support/servers/tcp-proxy.ts';
import { type LoadResult, payment, startLoad } from './half-open-load.ts';

/** 5 s for requests and 10 s for deliveries, and half as much again for a machine that is busy. Milliseconds. */
const requestBar = 7_500;
const deliveryBar = 15_000;

/** Whose connection the gateway has. */
type Owner = 'its own' | 'its host’s';
type Fault = readonly [name: string, direction: Direction | 'both', kind: LinkKind, owner: Owner];
const faults: readonly Fault[] = [
  ['all of them', 'both', 'all', 'its own'],
  ['all but the monitor’s', 'both', 'pool', 'its host’s'],
  ['all but the monitor’s, on the way to the database', 'up', 'pool', 'its own'],
  ['all but the monitor’s, on the way back', 'down', 'pool', 'its host’s'],
  ['the monitor’s alone', 'both', 'monitors', 'its own'],
];
/** More gateways under load would wait for this process. */
const atOnce = 2;

/** Milliseconds that closing may take. */
const closings = [
  ['only open connections are silent', 20_000],
  ['new connections are silent too', 45_000],
] as const;

/** What a gateway under load made of the fault. */
async function runFault([, direction, kind, owner]: Fault, database: BreakableDatabase): Promise<LoadResult> {
  const host = await mongoose.createConnection(database.uri, connectionTimes).asPromise();
  const load = await startLoad('gateway_', owner === 'its own' ? database.uri : host);
  // the time under load before the fault
  await sleep(1_500);
  expect(database.proxy.swallowOpen(direction, kind)).to.be.above(0);
  // the time under load during the fault
  await sleep(10_000);
  const result = await load.finish();
  await load.close();
  await host.close();
  return result;
}

/** How long a gateway takes to close. Milliseconds. */
async function runClosing(isHealed: boolean, database: BreakableDatabase): Promise<number> {
  const gateway = await createGateway({
    mongo: database.uri,
    credits: { prices: { '*': { input: 1_000 } }, initialBalance: 1 },
  });
  await gateway.start();
  await gateway.keys.create({ userId: 'usr_1' });
  if (isHealed) expect(database.proxy.swallowOpen('both', 'pool')).to.be.above(0);
  else database.proxy.swallow('both', 'pool');
  const publishing = gateway.publish({ type: 'payment.completed', userId: 'usr_1', data: payment }).catch(() => {});
  const startedAt = performance.now();
  await gateway.close();
  const took = performance.now() - startedAt;
  database.proxy.pass();
  await publishing;
  return took;
}

describe('open database connections that silently stop carrying data', () => {
  const databases: BreakableDatabase[] = [];
  const faultRuns: PromiseSettledResult<LoadResult>[] = [];
  let closingRuns: PromiseSettledResult<number>[];

  /** Runs something with a database of its own. */
  async function withDatabase<T>(run: (database: BreakableDatabase) => Promise<T>): Promise<T> {
    const database = await startBreakableDatabase();
    databases.push(database);
    return run(database);
  }

  before(async () => {
    // some at once, for each of them waits most of its time
    const closing = Promise.allSettled(
      closings.map((_, i) => withDatabase((database) => runClosing(i === 0, database))),
    );
    for (let i = 0; i < faults.length; i += atOnce) {
      const some = faults.slice(i, i + atOnce);
      faultRuns.push(
        ...(await Promise.allSettled(some.map((fault) => withDatabase((database) => runFault(fault, database))))),
      );
    }
    closingRuns = await closing;
  });
  after(() => Promise.all(databases.map((database) => database.stop())));

  function resultOf<T>(run: PromiseSettledResult<T> | undefined): T {
    if (run?.status === 'fulfilled') return run.value;
    throw run?.reason;
  }

  for (const [i, [name, , , owner]] of faults.entries())
    it(`are replaced in time: ${name}, of ${owner} connection`, () => {
      const { longest, failures } = resultOf(faultRuns[i]);
      const { first, retry, charge, ...requests } = longest;
      expect(failures).to.deep.equal([]);
      for (const [kind, time] of Object.entries(requests)) expect(time, kind).to.be.below(requestBar);
      for (const [kind, time] of Object.entries({ first, retry, charge })) expect(time, kind).to.be.below(deliveryBar);
    });

  for (const [i, [name, bar]] of closings.entries())
    it(`let a gateway close within ${bar / 1_000} s when ${name}`, () => {
      expect(resultOf(closingRuns[i])).to.be.below(bar);
    });
});
