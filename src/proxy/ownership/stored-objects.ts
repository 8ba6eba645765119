import type { BackgroundUsage } from './background-usage.ts';

/** What an upstream keeps for an account. */
export type StoredKind = 'response' | 'conversation' | 'chat_completion';

/** Whose something that an upstream keeps is, and which upstream keeps it. */
export interface StoredObject {
  /** As the upstream has named it: `resp_…`, `conv_…`, `chatcmpl-…`. */
  readonly id: string;
  readonly kind: StoredKind;
  /** The account. */
  readonly userId: string;
  /** The name of the upstream that keeps it. */
  readonly upstream: string;
  /** The model as the caller called it; `null` where the call named none. */
  readonly model: string | null;
  /** What its caller has attached to it. @default nothing */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Of a response that is made in the background, while it is not counted. */
  readonly background?: BackgroundUsage;
}

/** Which objects of an account a list has. */
export interface StoredObjectQuery {
  readonly userId: string;
  readonly kind: StoredKind;
  /** Only those that come after this one. */
  readonly after?: string;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly model?: string;
  /** Only those with all of these pairs. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Remembers whose the things are that upstreams keep. Every function rejects with `database_unavailable` if the database is the cause. */
export interface StoredObjects {
  /** @throws GatewayError `database_unavailable` if nothing can be stored at present */
  require(): void;
  /** Stores the record of a new object. An id that is taken stays whose it is. @returns whether it is this object's now */
  add(object: StoredObject): Promise<boolean>;
  /** The account's object of this kind and id; `null` is certain. */
  find(object: Pick<StoredObject, 'id' | 'kind' | 'userId'>): Promise<StoredObject | null>;
  /** Forgets an object. @param minAge only if it was stored so long ago, in milliseconds. @default 0 */
  remove(object: Pick<StoredObject, 'id' | 'userId'>, minAge?: number): Promise<void>;
  /** Replaces what its caller has attached to an object. */
  setMetadata(object: Pick<StoredObject, 'id' | 'userId'>, metadata: Readonly<Record<string, string>>): Promise<void>;
  /** The account's objects in the order in which they were made, and one more than `limit` if there are more. */
  list(query: StoredObjectQuery): Promise<readonly StoredObject[]>;
}

/** Remembers nothing. */
export const noStoredObjects: StoredObjects = {
  require() {},
  add: async () => true,
  find: async () => null,
  async remove() {},
  async setMetadata() {},
  list: async () => [],
};
