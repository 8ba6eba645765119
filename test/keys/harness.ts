import type { Connection } from 'mongoose';
import { createKeyModel } from '../../src/keys/model.ts';
import { createKeyService, type KeyServiceDeps } from '../../src/keys/service.ts';

/** The service over the keys of one connection. Alone unless a test says otherwise: nothing is published, nothing joined in a transaction. */
export function keyServiceOf(connection: Connection, deps: Partial<KeyServiceDeps> = {}, prefix = 'gateway_') {
  const keys = createKeyModel(connection, prefix);
  const service = createKeyService({
    keys,
    publish: async () => {},
    transaction: (fn) => fn(undefined),
    onLastUsedLost() {},
    ...deps,
  });
  return { service, keys };
}

export type StoredKeys = ReturnType<typeof keyServiceOf>['keys'];
