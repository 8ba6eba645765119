import { modelNotFound } from '../../src/proxy/upstream.ts';
import type { BackgroundResponses } from '../../src/stored/background.ts';
import type { StoredSecrets } from '../../src/stored/secrets.ts';
import type { StoredObjects } from '../../src/stored/service.ts';

/** Remembers nothing. */
export const noStoredObjects: StoredObjects = {
  require() {},
  add: async () => true,
  async addMade() {},
  find: async () => null,
  async remove() {},
  async missing() {},
  async found() {},
  count: async () => 0,
  async setMetadata() {},
  async addShown() {},
  isKnown: async () => false,
  uncounted: async () => [],
  findItems: async () => ({ own: new Map(), foreign: new Set() }),
  list: async () => [],
  models: {
    known: new Map(),
    has: () => false,
    own: () => undefined,
    isExclusive: () => false,
    find: async () => undefined,
    of: () => [],
    isForeign: () => false,
    requireOpen() {},
    route: async (_, model) => {
      throw modelNotFound(model);
    },
    added() {},
    removed() {},
    async init() {},
    async close() {},
  },
};

/** Follows none. */
export const noBackgroundResponses: BackgroundResponses = {
  requireRoom() {},
  started() {},
  async ended() {},
  pollSoon() {},
  settle: async () => true,
};

/** Knows no secret. */
export const noStoredSecrets: StoredSecrets = { add: async () => true, find: async () => undefined };
