import { createHmac, randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { MongoClient, type MongoClientOptions, MongoError } from 'mongodb';
import { loadPrivateFile } from '../private-file.ts';

/** Access to the embedded database: every user who can read the key file in its data folder has it. */
export interface MongoAccess {
  /** By which the members know each other; mongod takes it from here, so that no command line shows it. */
  readonly keyFile: string;
  /** As a member of the set: may do everything, before there is any user too. */
  readonly asMember: MongoClientOptions;
  /** The user that everything else connects as. */
  readonly user: { readonly name: string; readonly password: string };
}

const userName = 'gateway';
const userExists = 51003;

/**
 * The access to the database of a data folder. There is one secret, the random key: the password follows from it, so
 * that the two always match, whatever a crash left behind.
 */
export async function loadAccess(dataDir: string): Promise<MongoAccess> {
  const keyFile = resolve(join(dataDir, 'mongo.key'));
  const key = (await loadPrivateFile(keyFile, () => `${randomBytes(756).toString('base64')}\n`)).trim();
  const password = createHmac('sha256', key).update(`password of ${userName}`).digest('base64url');
  return {
    keyFile,
    asMember: { auth: { username: '__system', password: key }, authSource: 'local', authMechanism: 'SCRAM-SHA-256' },
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
export async function ensureUser(hosts: readonly string[], replicaSet: string, access: MongoAccess): Promise<void> {
  const { user, asMember } = access;
  const writeConcern = { w: hosts.length, wtimeout: replicationTimeout };
  const settings = { pwd: user.password, roles: ['root'], mechanisms: ['SCRAM-SHA-256'], writeConcern };
  const client = new MongoClient(`mongodb://${hosts.join(',')}/`, { ...asMember, replicaSet });
  try {
    const admin = client.db('admin');
    await admin.command({ createUser: user.name, ...settings }).catch((error) => {
      if (!(error instanceof MongoError) || error.code !== userExists) throw error;
      return admin.command({ updateUser: user.name, ...settings });
    });
  } finally {
    await client.close();
  }
}
