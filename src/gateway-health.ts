import { clockSkew, longestSkew } from './mongo/clock-skew.ts';
import { withTimeout } from './mongo/with-timeout.ts';
import type { OpenDatabase, Services } from './services.ts';

/** How one part of the gateway is. */
export type CheckResult = 'ok' | 'failed' | 'off' | 'unknown';

/** Whether a gateway should get requests. */
export interface GatewayHealth {
  readonly ready: boolean;
  readonly checks: {
    /** A primary answers within a second. */
    readonly database: CheckResult;
    /** Every index that this version needs is there; read once a minute. `doctor` names what is missing. */
    readonly indexes: CheckResult;
    /** The worker's sweep runs; `off` where `start()` was not called. */
    readonly worker: CheckResult;
    /** This machine's clock and the database's are at most 10 s apart; `unknown` while no primary answers. Deliveries follow the database's; signatures carry this one's. */
    readonly clock: CheckResult;
    /** `close()` was not called. */
    readonly open: CheckResult;
  };
}

export interface HealthCheckDeps {
  readonly worker: Services['deliveries']['worker'];
  readonly database: Pick<OpenDatabase, 'connection' | 'access'>;
  /** `undefined` where the database does not say so. */
  readonly indexesPresent: () => Promise<boolean | undefined>;
  readonly isClosing: () => boolean;
}

/** How long the database may take to answer, and how long its answer is used: whoever asks often costs one request a second. Milliseconds. */
const databaseTimeout = 1_000;

function resultOf(isOk: boolean | undefined): CheckResult {
  if (isOk === undefined) return 'unknown';
  return isOk ? 'ok' : 'failed';
}

/** Makes the function that says whether a gateway should get requests, and why not. */
export function createHealthCheck(deps: HealthCheckDeps): () => Promise<GatewayHealth> {
  const { worker, database, indexesPresent, isClosing } = deps;
  const { connection, access } = database;
  const admin = connection.getClient().db('admin', { readPreference: 'primary' });

  /** The difference of the clocks, in milliseconds; `undefined` where no primary answers. */
  async function readSkew(): Promise<number | undefined> {
    if (access.isUnavailable) return undefined;
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

  /** Whether all are there; `undefined` where the database does not answer in time. */
  function readIndexes(): Promise<boolean | undefined> {
    return withTimeout(indexesPresent(), databaseTimeout, false).catch(() => undefined);
  }

  return async function checkHealth() {
    const skew = access.isUnavailable ? undefined : await recentSkew();
    // without an answer nothing is known of indexes and clock
    const indexes = skew === undefined ? undefined : await readIndexes();
    const { isLive, isWorking } = worker;
    const checks = {
      database: resultOf(skew !== undefined),
      indexes: resultOf(indexes),
      worker: isWorking || isLive ? resultOf(isLive) : 'off',
      clock: resultOf(skew === undefined ? undefined : skew <= longestSkew),
      open: resultOf(!isClosing()),
    } as const;
    return { ready: Object.values(checks).every((check) => check !== 'failed'), checks };
  };
}
