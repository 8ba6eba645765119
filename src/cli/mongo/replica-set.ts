import { setTimeout as sleep } from 'node:timers/promises';
import { type Document, MongoError } from 'mongodb';
import { ensureUser, type MongoAccess, memberClient } from './access.ts';

interface ReplicaSet {
  readonly name: string;
  /** `127.0.0.1:<port>` of each member. */
  readonly hosts: readonly string[];
  readonly access: MongoAccess;
}

type AdminCommand = (command: Document) => Promise<Document>;

/** Short, so that a new primary is elected within a few seconds. */
const timings = { electionTimeoutMillis: 2_000, heartbeatIntervalMillis: 500 };
const startTimeout = 60_000;

const notYetInitialized = 94;
const alreadyInitialized = 23;
const notPrimary = [10107, 11602, 13435, 13436, 91];

/** While a node reads its configuration, or changes state, its answers contradict each other and it drops connections. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof MongoError)) return false;
  const code = Number(error.code);
  return error.name.startsWith('MongoNetwork') || code === alreadyInitialized || notPrimary.includes(code);
}

async function currentConfig(admin: AdminCommand): Promise<Document | undefined> {
  try {
    return (await admin({ replSetGetConfig: 1 })).config;
  } catch (error) {
    if (error instanceof MongoError && error.code === notYetInitialized) return undefined;
    throw error;
  }
}

/** Joins the members in one set, whatever ports they listened on the last time. */
async function configure(admin: AdminCommand, { name, hosts }: ReplicaSet): Promise<void> {
  const members = hosts.map((host, _id) => ({ _id, host }));
  const config = await currentConfig(admin);
  if (!config) {
    await admin({ replSetInitiate: { _id: name, members, settings: timings } });
    return;
  }
  const currentHosts: string[] = config.members.map((member: { host: string }) => member.host);
  if (currentHosts.join() === hosts.join()) return;
  // forced: on its new port the node is not a member of its own set, so no majority could agree
  await admin({ replSetReconfig: { ...config, members, version: config.version + 1 }, force: true });
}

const primary = 1;
const secondary = 2;

/** @throws Error when a member is neither primary nor secondary, or none is primary */
async function checkMembers(admin: AdminCommand): Promise<void> {
  const status = await admin({ replSetGetStatus: 1 });
  const states: number[] = status.members.map((member: { state: number }) => member.state);
  const up = states.includes(primary) && states.every((state) => state === primary || state === secondary);
  if (!up) throw new MongoError('a member is not up yet');
}

async function until(step: () => Promise<void>, again: (error: unknown) => boolean, deadline: number): Promise<void> {
  for (;;) {
    try {
      return await step();
    } catch (error) {
      if (!again(error) || Date.now() > deadline) throw error;
      await sleep(25);
    }
  }
}

/**
 * Brings the nodes up as one replica set and resolves when every member is up, one takes writes and the user is there.
 * @throws MongoError when that takes longer than 60 s
 */
export async function bringUpReplicaSet(set: ReplicaSet): Promise<void> {
  const deadline = Date.now() + startTimeout;
  const client = memberClient(set.hosts[0] ?? '', set.access);
  try {
    const admin: AdminCommand = (command) => client.db('admin').command(command);
    await until(() => configure(admin, set), isTransient, deadline);
    await until(
      () => checkMembers(admin),
      (error) => error instanceof MongoError,
      deadline,
    );
  } finally {
    await client.close();
  }
  await until(
    () => ensureUser(set.hosts, set.name, set.access),
    (error) => error instanceof MongoError,
    deadline,
  );
}

/** How a client reaches the set, and its database. */
export function replicaSetUri({ name, hosts, access: { user } }: ReplicaSet): string {
  return `mongodb://${user.name}:${user.password}@${hosts.join(',')}/gateway?replicaSet=${name}&authSource=admin`;
}
