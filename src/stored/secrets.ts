import { hash } from 'node:crypto';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import type { Principal } from '../options/principal.ts';
import type { StoredObjectModel } from './model.ts';

/** A secret that an upstream has made for the clients of an account, without its text. */
export interface StoredSecret {
  /** The name of the upstream that takes it. */
  readonly upstream: string;
  /** The model of its session, as the caller called it, or as the upstream says where the caller named none. */
  readonly model: string | null;
  /** The model that transcribes in its session, by the same names; `null` where none does. */
  readonly transcriptionModel: string | null;
  /** Who had it made, as it was then. */
  readonly principal: Principal;
  readonly expiresAt: Date;
}

/** Remembers whose the secrets are that upstreams make. Every function rejects with `database_unavailable` if the database is the cause. */
export type StoredSecrets = ReturnType<typeof createStoredSecrets>;

/** The longest that a secret is good for, whatever its upstream says. Milliseconds. */
const longestLife = 86_400_000;

/** SHA-256 of the whole text, as of keys: what is random needs no slow hash. */
function documentId(secret: string): string {
  return `secret ${hash('sha256', secret)}`;
}

export function createStoredSecrets({
  objects,
  database,
}: {
  readonly objects: StoredObjectModel;
  readonly database: Pick<DatabaseAccess, 'run'>;
}) {
  const collection = durableCollection(objects);
  const readConfirmed = createReadConfirmed(collection);

  return {
    /** Stores whose a new secret is. A secret that is known stays whose it is. @returns whether it is this account's and this key's */
    async add(
      secret: string,
      { upstream, model, transcriptionModel, principal, expiresAt }: StoredSecret,
    ): Promise<boolean> {
      const _id = documentId(secret);
      const { userId } = principal;
      const end = new Date(Math.min(expiresAt.getTime(), Date.now() + longestLife));
      const models = { model, ...(transcriptionModel !== null && { transcriptionModel }) };
      const document = { _id, kind: 'secret', userId, upstream, ...models, metadata: [], principal, expiresAt: end };
      const update = insertOnly(document, { createdAt: '$$NOW' }, 'userId');
      const options = { upsert: true, returnDocument: 'after' } as const;
      const stored = await database.run(() => collection.findOneAndUpdate({ _id }, update, options));
      const isKeys = stored?.principal?.keyId === principal.keyId;
      return stored?.userId === userId && isKeys && stored.upstream === upstream;
    },

    /** What is known of a secret; `undefined` where no account has it, or it has expired. */
    async find(secret: string): Promise<StoredSecret | undefined> {
      const _id = documentId(secret);
      const found = await database.run(() => readConfirmed(_id, () => collection.findOne({ _id, kind: 'secret' })));
      const { upstream, model = null, transcriptionModel = null, principal, expiresAt } = found ?? {};
      if (upstream === undefined || !principal || !expiresAt || expiresAt.getTime() <= Date.now()) return undefined;
      return { upstream, model, transcriptionModel, principal, expiresAt };
    },
  };
}
