import { clockSkew, longestSkew } from './mongo/clock-skew.ts';
import { type FoundIndex, indexName } from './mongo/schema/indexes.ts';
import { withTimeout } from './mongo/with-timeout.ts';
import type { OpenDatabase, Services } from './services.ts';

/** How one part of the gateway is. `degraded` needs repair, and does not make the gateway unready. */
export type CheckResult = 'ok' | 'degraded' | 'failed' | 'off' | 'unknown';

/** Whether a gateway should get requests. */
export interface GatewayHealth {
  readonly ready: boolean;
  readonly checks: {
    /** A primary answers within a second. */
    readonly database: CheckResult;
    /** Every index that this version needs is there; `failed` without a unique one, `degraded` without another. Read once a minute. */
    readonly indexes: CheckResult;
    /** The worker's sweep runs; `off` where `start()` was not called. */
    readonly worker: CheckResult;
    /** This machine's clock and the database's are at most 10 s apart; `unknown` while no primary answers. Deliveries follow the database's; signatures carry this one's. */
    readonly clock: CheckResult;
    /** `close()` was not called. */
    readonly open: CheckResult;
  };
  /** The indexes that are missing, being built, or have other fields or options; only where there are any. */
  readonly missingIndexes?: readonly string[];
}

export interface HealthCheckDeps {
  readonly worker: Services['deliveries']['worker'];
  readonly database: Pick<OpenDatabase, 'connection' | 'access'>;
  /** `undefined` where the database does not say so. */
  readonly lackingIndexes: () => Promise<readonly FoundIndex[] | undefined>;
  readonly isClosing: () => boolean;
}

/** How long the database may take to answer, and how long its answer is used: whoever asks often costs one request a second. Milliseconds. */
const databaseTimeout = 1_000;

function resultOf(isOk: boolean | undefined): CheckResult {
  if (isOk === undefined) return 'unknown';
  return isOk ? 'ok' : 'failed';
}

/** Without a unique index data gets wrong; without another one, requests take longer, or documents are kept for longer. */
function resultOfIndexes(lacking: readonly FoundIndex[] | undefined): CheckResult {
  if (lacking === undefined) return 'unknown';
  if (lacking.some(({ isUnique }) => isUnique)) return 'failed';
  return lacking.length > 0 ? 'degraded' : 'ok';
}

/** Makes the function that says whether a gateway should get requests, and why not. */
export function createHealthCheck(deps: HealthCheckDeps): () => Promise<GatewayHealth> {
  const { worker, database, lackingIndexes, isClosing } = deps;
  const { connection, access } = database;
  const admin = connection.getClient().db('admin', { readPreference: 'primary' });

  /** The difference of the clocks, in milliseconds; `undefined` where no primary answers. */
  async function readSkew(): Promise<number | undefined> {
    const askedAt = Date.now();
    try {
      const { localTime, isWritablePrimary } = await withTimeout(admin.command({ hello: 1 }), databaseTimeout, false);
      if (!isWritablePrimary) return undefined;
      return Math.abs(clockSkew({ askedAt, localTime, answeredAt: Date.now() }));
    } catch {
      return undefined;
    }
  }

  let reading: { readonly skew: Promise<number | undefined>; readonly at: number } | undefined;
  function recentSkew(): Promise<number | undefined> {
    const now = performance.now();
    if (!reading || now - reading.at > databaseTimeout) reading = { skew: readSkew(), at: now };
    return reading.skew;
  }

  /** Those that are lacking; `undefined` where the database does not answer in time. */
  function readIndexes(): Promise<readonly FoundIndex[] | undefined> {
    return withTimeout(lackingIndexes(), databaseTimeout, false).catch(() => undefined);
  }

  return async function checkHealth() {
    const skew = access.isUnavailable ? undefined : await recentSkew();
    // without an answer nothing is known of indexes and clock
    const lacking = skew === undefined ? undefined : await readIndexes();
    const { isLive, isWorking } = worker;
    const checks = {
      database: resultOf(skew !== undefined),
      indexes: resultOfIndexes(lacking),
      worker: isWorking || isLive ? resultOf(isLive) : 'off',
      clock: resultOf(skew === undefined ? undefined : skew <= longestSkew),
      open: resultOf(!isClosing()),
    } as const;
    return {
      ready: Object.values(checks).every((check) => check !== 'failed'),
      checks,
      ...(lacking && lacking.length > 0 && { missingIndexes: lacking.map(indexName) }),
    };
  };
}
