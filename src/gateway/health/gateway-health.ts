import { leastFree, longestSkew, slowWrite } from '../../mongo/probes/probes.ts';
import { type FoundIndex, indexName } from '../../mongo/schema/indexes.ts';
import type { SchemaDeps } from '../../mongo/schema/prepare-schema.ts';
import type { UpstreamState } from '../../proxy/proxy.ts';
import type { Services } from '../services.ts';
import { createHealthReadings, type DatabaseReadings, oldBacklog } from './health-readings.ts';

/** How one part of the gateway is. `degraded` needs repair, and does not make the gateway unready. */
export type CheckResult = 'ok' | 'degraded' | 'failed' | 'off' | 'unknown';

/**
 * Whether a gateway should get requests. `database` and `clock` are a second old at most, `writes` 5 s; any other value that
 * the database tells is used for 15 s if it is `ok`, and for 5 s if not.
 */
export interface GatewayHealth {
  readonly ready: boolean;
  readonly checks: {
    /** A primary answers within a second. */
    readonly database: CheckResult;
    /** Every index that this version needs is there; `failed` without a unique one, `degraded` without another. */
    readonly indexes: CheckResult;
    /** This version may use the database; `failed` once a newer version has prepared it for newer ones alone. */
    readonly schema: CheckResult;
    /** `secretKeys` has every key that sealed a stored secret; `degraded` where deliveries to some webhooks cannot be signed. */
    readonly sealingKeys: CheckResult;
    /** A write is in the journal of a majority within a second; `degraded` where it takes longer. */
    readonly writes: CheckResult;
    /** A tenth of the primary's disk is free; `degraded` where less is. */
    readonly disk: CheckResult;
    /** No upstream's breaker keeps calls away, and none accepts calls without answering any for minutes; `degraded` while one does. */
    readonly upstreams: CheckResult;
    /** The worker's sweep runs; `off` where `start()` was not called. */
    readonly worker: CheckResult;
    /** A live process makes attempts, this one or another, or none is due; `degraded` otherwise. */
    readonly workers: CheckResult;
    /** No delivery and no event has been due and unclaimed for longer than 5 minutes; `degraded` while one has. */
    readonly backlog: CheckResult;
    /** This machine's clock and the database's are at most 10 s apart; `unknown` while no primary answers. Deliveries follow the database's; signatures carry this one's. */
    readonly clock: CheckResult;
    /** `close()` was not called. */
    readonly open: CheckResult;
  };
  /** The indexes that are missing, being built, or have other fields or options; only where there are any. */
  readonly missingIndexes?: readonly string[];
  /** The ids of keys that sealed stored secrets and that `secretKeys` lacks; only where there are any. */
  readonly missingKeys?: readonly string[];
  /** The names of upstreams whose breaker is open; only where there are any. */
  readonly openBreakers?: readonly string[];
  /** The names of upstreams that accept calls and answer none; only where there are any. */
  readonly hangingUpstreams?: readonly string[];
}

function resultOf(isOk: boolean | undefined, otherwise: 'failed' | 'degraded' = 'failed'): CheckResult {
  if (isOk === undefined) return 'unknown';
  return isOk ? 'ok' : otherwise;
}

/** Without a unique index data gets wrong; without another one, requests take longer, or documents are kept for longer. */
function resultOfIndexes(lacking: readonly FoundIndex[] | undefined): CheckResult {
  return resultOf(lacking && lacking.length === 0, lacking?.some(({ isUnique }) => isUnique) ? 'failed' : 'degraded');
}

function checksOfDatabase(readings: DatabaseReadings) {
  const { skew, lackingIndexes, isCompatible, missingKeys, writeTime, freeDisk, backlog } = readings;
  return {
    database: resultOf(skew !== undefined),
    indexes: resultOfIndexes(lackingIndexes),
    schema: resultOf(isCompatible),
    sealingKeys: resultOf(missingKeys && missingKeys.length === 0, 'degraded'),
    writes: resultOf(writeTime === undefined ? undefined : writeTime <= slowWrite, 'degraded'),
    disk: resultOf(freeDisk === undefined ? undefined : freeDisk >= leastFree, 'degraded'),
    backlog: resultOf(backlog && backlog.oldestDue <= oldBacklog, 'degraded'),
    clock: resultOf(skew === undefined ? undefined : Math.abs(skew) <= longestSkew),
  } as const;
}

const namesOf = (upstreams: readonly UpstreamState[]) => upstreams.map(({ name }) => name);

const isAny = (names: readonly string[] | undefined): names is readonly string[] => (names?.length ?? 0) > 0;

/** Makes the function that says whether a gateway should get requests, and why not; with what it has read of the database. */
export function createHealthCheck(services: Services, schema: SchemaDeps, isClosing: () => boolean) {
  const { deliveries, proxy } = services;
  const read = createHealthReadings(services, schema);
  return async function check(): Promise<{ readonly health: GatewayHealth; readonly readings: DatabaseReadings }> {
    const readings = await read();
    const { isLive } = deliveries.due;
    const { isWorking } = deliveries.scheduler;
    const upstreams = proxy.states();
    const openBreakers = namesOf(upstreams.filter(({ breaker }) => breaker !== 'closed'));
    const hangingUpstreams = namesOf(upstreams.filter(({ isHanging }) => isHanging));
    const { lackingIndexes, missingKeys, backlog } = readings;
    const missingIndexes = lackingIndexes?.map(indexName);
    const checks = {
      ...checksOfDatabase(readings),
      upstreams: resultOf(openBreakers.length + hangingUpstreams.length === 0, 'degraded'),
      worker: isWorking || isLive ? resultOf(isLive) : 'off',
      workers: resultOf(isLive || backlog?.hasWorker, 'degraded'),
      open: resultOf(!isClosing()),
    } as const;
    const health = {
      ready: Object.values(checks).every((result) => result !== 'failed'),
      checks,
      ...(isAny(missingIndexes) && { missingIndexes }),
      ...(isAny(missingKeys) && { missingKeys }),
      ...(isAny(openBreakers) && { openBreakers }),
      ...(isAny(hangingUpstreams) && { hangingUpstreams }),
    };
    return { health, readings };
  };
}
