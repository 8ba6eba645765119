import type { BackgroundUsage } from './background-usage.ts';

/** The ids of what upstreams keep, as openapi.yaml describes them: no provider has others, and they are safe in a path. */
export const storedId = /^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,255}$/;

/** What an upstream keeps for an account. */
export type StoredKind = 'response' | 'conversation' | 'chat_completion' | 'item';

/** No provider's ids are longer. Characters. */
export const longestId = 256;

/** Whose something that an upstream keeps is, and which upstream keeps it. */
export interface StoredObject {
  /** As the upstream has named it: `resp_…`, `conv_…`, `chatcmpl-…`, `msg_…`. */
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

/** Where the items of an answer are kept, and for whom. */
export type ItemKeeper = Pick<StoredObject, 'userId' | 'upstream' | 'model'>;

/** What is known of some ids of items. */
export interface FoundItems {
  /** Those that the account has been shown. */
  readonly own: ReadonlyMap<string, StoredObject>;
  /** Those that only other accounts have been shown. */
  readonly foreign: ReadonlySet<string>;
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
  /**
   * Stores that an account has been shown items with these ids. Several accounts may have items of the same id, because not every
   * upstream gives each item an id of its own. Never rejects: the account may have them shown again.
   */
  addItems(ids: readonly string[], keeper: ItemKeeper): Promise<void>;
  /** What is known of some items. That one is neither own nor foreign is not certain; ask {@link find}. */
  findItems(items: { readonly ids: readonly string[]; readonly userId: string }): Promise<FoundItems>;
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
  async addItems() {},
  findItems: async () => ({ own: new Map(), foreign: new Set() }),
  list: async () => [],
};
