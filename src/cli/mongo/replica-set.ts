import { createHmac, randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Document, MongoClient, type MongoClientOptions, MongoError } from 'mongodb';
import { loadPrivateFile } from '../private-file.ts';

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
    await until(() => checkMembers(admin), isMongoError, deadline);
  } finally {
    await client.close();
  }
  await until(() => ensureUser(set), isMongoError, deadline);
}

const isMongoError = (error: unknown): error is MongoError => error instanceof MongoError;

/** While a node reads its configuration, or changes state, its answers contradict each other and it drops connections. */
function isTransient(error: unknown): boolean {
  if (!isMongoError(error)) return false;
  const code = Number(error.code);
  return error.name.startsWith('MongoNetwork') || code === alreadyInitialized || notPrimary.includes(code);
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

async function currentConfig(admin: AdminCommand): Promise<Document | undefined> {
  try {
    return (await admin({ replSetGetConfig: 1 })).config;
  } catch (error) {
    if (isMongoError(error) && error.code === notYetInitialized) return undefined;
    throw error;
  }
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

/** How a client reaches the set, and its database. */
export function replicaSetUri({ name, hosts, access: { user } }: ReplicaSet): string {
  return `mongodb://${user.name}:${user.password}@${hosts.join(',')}/gateway?replicaSet=${name}&authSource=admin`;
}

export type MongoAccess = Awaited<ReturnType<typeof loadAccess>>;

const userName = 'gateway';
const userExists = 51003;

/**
 * The access to the database of a data folder: every user who can read the key file in it has it. There is one secret, the
 * random key: the password follows from it, so that the two always match, whatever a crash left behind.
 */
export async function loadAccess(dataDir: string) {
  const keyFile = resolve(join(dataDir, 'mongo.key'));
  const key = (await loadPrivateFile(keyFile, () => `${randomBytes(756).toString('base64')}\n`)).trim();
  const password = createHmac('sha256', key).update(`password of ${userName}`).digest('base64url');
  const auth = { username: '__system', password: key };
  return {
    /** By which the members know each other; mongod takes it from here, so that no command line shows it. */
    keyFile,
    /** As a member of the set: may do everything, before there is any user too. */
    asMember: { auth, authSource: 'local', authMechanism: 'SCRAM-SHA-256' } as const,
    /** The user that everything else connects as. */
    user: { name: userName, password },
  };
}

/** A client of one mongod, with the rights of a member of its set. */
export function memberClient(host: string, { asMember }: MongoAccess, options: MongoClientOptions = {}): MongoClient {
  return new MongoClient(`mongodb://${host}/`, { ...asMember, ...options, directConnection: true });
}

/** How long the last member can take to store the user. Milliseconds. */
const replicationTimeout = 10_000;

/**
 * Creates the user, or gives the existing user the password that is derived from the key. Resolves when every member has it:
 * nobody can authenticate on a member that lacks the user.
 */
async function ensureUser({ hosts, name: replicaSet, access: { user, asMember } }: ReplicaSet): Promise<void> {
  const writeConcern = { w: hosts.length, wtimeout: replicationTimeout };
  const settings = { pwd: user.password, roles: ['root'], mechanisms: ['SCRAM-SHA-256'], writeConcern };
  const client = new MongoClient(`mongodb://${hosts.join(',')}/`, { ...asMember, replicaSet });
  try {
    const admin = client.db('admin');
    await admin.command({ createUser: user.name, ...settings }).catch((error) => {
      if (!isMongoError(error) || error.code !== userExists) throw error;
      return admin.command({ updateUser: user.name, ...settings });
    });
  } finally {
    await client.close();
  }
}
