import type { UpstreamOptions } from '../../src/index.ts';
import { createProxy, type ModelProxy, type ProxyDependencies } from '../../src/proxy/proxy.ts';
import { createRetryPolicy, type RetryOptions } from '../../src/proxy/retry.ts';
import { createUpstream } from '../../src/proxy/upstream.ts';
import type { SessionDependencies } from '../../src/sockets/session.ts';
import type { BackgroundResponses } from '../../src/stored/background.ts';
import { createCallStorage } from '../../src/stored/call-storage.ts';
import { createStoredRelay, storedOperations } from '../../src/stored/calls.ts';
import { createStoredList } from '../../src/stored/list.ts';
import type { StoredObjects } from '../../src/stored/service.ts';
import { silentLogger } from './logger.ts';
import { noBackgroundResponses, noStoredObjects } from './no-stored-objects.ts';

/** Without a database, and with what a test does not say as in a gateway without options. */
export interface TestProxyOptions
  extends Partial<Omit<ProxyDependencies, 'upstreams' | 'retry' | 'storage' | 'backgroundResponses'>> {
  readonly upstreams: readonly UpstreamOptions[];
  readonly retry?: RetryOptions;
  readonly storedObjects?: StoredObjects;
  readonly backgroundResponses?: BackgroundResponses;
}

/** The model endpoints, and the calls about what upstreams keep. */
export type TestProxy = Pick<ModelProxy, 'ownOperations' | 'states' | 'drain' | 'close'> & {
  readonly operations: ModelProxy['operations'] & ReturnType<typeof storedOperations>;
  readonly relaying: SessionDependencies;
};

/** Joins them as a gateway does. */
export function createTestProxy(options: TestProxyOptions): TestProxy {
  const {
    storedObjects = noStoredObjects,
    backgroundResponses = noBackgroundResponses,
    retry = {},
    ...others
  } = options;
  const upstreams = options.upstreams.map(createUpstream);
  const proxy = createProxy({
    logger: silentLogger,
    idempotencySecret: Buffer.alloc(32, 1),
    ...others,
    upstreams,
    retry: createRetryPolicy(retry),
    storage: createCallStorage(storedObjects),
    backgroundResponses,
  });
  const limits = { maxFiles: 10_000, maxFileBytes: Number.POSITIVE_INFINITY };
  const storing = { ...proxy.calling, upstreams, storedObjects, backgroundResponses, ...limits };
  const stored = storedOperations({
    relay: proxy.tracked(createStoredRelay(storing)),
    list: proxy.tracked(createStoredList(storing)),
  });
  return {
    ...proxy,
    operations: { ...proxy.operations, ...stored },
    relaying: { ...proxy.relaying, storedObjects },
  };
}
