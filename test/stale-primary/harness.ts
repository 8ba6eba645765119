import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { type Cluster, memberUri, startCluster } from '../faults/cluster/cluster.ts';
import { atOnce } from '../support/at-once.ts';
import { meeting } from '../support/meeting.ts';
import { elect, type Fault, faults, longTerm, setTerm, term } from './faults.ts';

/** A database that some rows share and others do not see, on the replica set. */
export interface Scene {
  readonly cluster: Cluster;
  readonly uri: string;
  readonly connection: Connection;
  /** The same database at the primary alone that is about to become stale. */
  readonly stale: Connection;
  /** The URI of that. */
  readonly staleUri: string;
  /** Has this done at the end, before what was deferred earlier. */
  defer(close: () => unknown): void;
}

/** What a row has at hand. It prepares itself, waits for `fault`, looks, and may wait for `recovered` and look again. */
export interface Stage {
  /** What `open` returns, which is called once for all rows that ask for it. */
  scene<T>(open: (scene: Scene) => Promise<T>): Promise<T>;
  /** Resolves when all rows have prepared themselves, every member has what they have written, and the primary is stale. */
  fault(): Promise<void>;
  /** Resolves when all rows have seen what they wanted to see, and the replica set recovers. */
  recovered(): Promise<void>;
}

/** One line of the table. */
export interface Row {
  readonly fault: Fault;
  /** What is read or written. */
  readonly subject: string;
  /** What the primary does not have of it, and what the others have. */
  readonly written: string;
  /** What is concluded, and what is not. */
  readonly holds: string;
  show(stage: Stage): Promise<void>;
}

let scenesOpened = 0;

/** Prepares all rows of a fault, has it happen once, and shows all rows at once. */
function describeFault(fault: Fault, rows: readonly Row[], clusterOf: () => Cluster): void {
  const closing: (() => unknown)[] = [];
  const scenes = new Map<unknown, Promise<unknown>>();
  let recover = async () => {};
  let host: Promise<string> | undefined;
  /** Of the member that is about to become stale: the primary when the first scene opens. */
  const staleHost = () =>
    (host ??= clusterOf()
      .primary()
      .then(({ node }) => node.host));
  const meetFault = meeting(rows, async () => {
    const cluster = clusterOf();
    const everywhere = { w: cluster.nodes.length, wtimeout: 30_000 };
    // the last write of all
    const notes = cluster.connection.getClient().db('notes').collection('notes');
    await notes.insertOne({}, { writeConcern: everywhere });
    // another one may have been elected meanwhile
    await elect(cluster, await staleHost());
    await setTerm(cluster, term);
    const end = await faults[fault](cluster);
    recover = async () => {
      await end();
      await setTerm(cluster, longTerm);
    };
  });
  const meetRecovery = meeting(rows, () => recover());

  async function openScene<T>(name: string, open: (scene: Scene) => Promise<T>): Promise<T> {
    const cluster = clusterOf();
    const uri = cluster.uri.replace(/\/[^/?]*(\?|$)/, `/${name}$1`);
    const connect = async (to: string) => {
      const connection = await mongoose.createConnection(to, { serverSelectionTimeoutMS: 60_000 }).asPromise();
      closing.unshift(() => connection.close());
      return connection;
    };
    const staleUri = memberUri(uri, await staleHost());
    const [connection, stale] = await Promise.all([connect(uri), connect(staleUri)]);
    return open({ cluster, uri, connection, stale, staleUri, defer: (close) => void closing.unshift(close) });
  }

  async function showOn(row: Row): Promise<void> {
    try {
      await row.show({
        scene<T>(open: (scene: Scene) => Promise<T>) {
          if (!scenes.has(open)) scenes.set(open, openScene(`scene_${++scenesOpened}`, open));
          return scenes.get(open) as Promise<T>;
        },
        fault: () => meetFault(row),
        async recovered() {
          await meetFault(row);
          await meetRecovery(row);
        },
      });
    } finally {
      // the others do not wait for it
      void meetFault(row);
      void meetRecovery(row);
    }
  }

  describe(`from ${fault} of`, () => {
    atOnce(Object.fromEntries(rows.map((row) => [`${row.subject}, ${row.written}: ${row.holds}`, () => showOn(row)])));
    after(async () => {
      for (const close of closing) await close();
    });
  });
}

/** The rows as tests, fault by fault, all on one replica set. */
export function describeStalePrimary(rows: readonly Row[]): void {
  describe('What is concluded', function () {
    this.timeout(120_000);
    let cluster: Cluster;
    before(async () => {
      cluster = await startCluster();
      await setTerm(cluster, longTerm);
    });
    after(() => cluster?.stop());
    for (const fault of Object.keys(faults) as Fault[]) {
      describeFault(
        fault,
        rows.filter((row) => row.fault === fault),
        () => cluster,
      );
    }
  });
}

/** Expects that each of them fails as unavailable for the moment, and says so soon. @param within milliseconds */
export async function expectUnavailable(within: number, ...asked: readonly Promise<unknown>[]): Promise<void> {
  const started = performance.now();
  const outcomes = await Promise.allSettled(asked);
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') expect.fail(`it answered ${outcome.value}`);
    expect(isUnavailable(outcome.reason), String(outcome.reason)).to.equal(true);
  }
  expect(performance.now() - started).to.be.below(within);
}
