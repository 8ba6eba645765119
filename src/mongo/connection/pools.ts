import type { Connection } from 'mongoose';

type Client = ReturnType<Connection['getClient']>;

/** What is read of a pool of the driver (mongodb 7.8): one for each server. */
interface Pool {
  readonly checkedOutConnections?: Iterable<unknown>;
  readonly currentCheckedOutCount?: number;
  readonly availableConnectionCount?: number;
  readonly pendingConnectionCount?: number;
  readonly waitQueueSize?: number;
}

/** The driver's internals that lead to the pools. No public API does. */
interface Internals {
  readonly topology?: {
    readonly s?: { readonly servers?: ReadonlyMap<string, { readonly pool?: Pool }> };
  };
}

/** The driver's pools of connections. If its objects have another form, there are none. */
export function* poolsOf(client: Client): Iterable<Pool> {
  for (const { pool } of (client as unknown as Internals).topology?.s?.servers?.values() ?? []) {
    if (pool) yield pool;
  }
}

/** The connections of a client to all its servers. Its monitoring has one more to each server, which is not counted. */
export interface PoolUsage {
  readonly inUse: number;
  readonly idle: number;
  readonly opening: number;
  /** Commands that wait for a connection. */
  readonly waiting: number;
}

export function poolUsage(client: Client): PoolUsage {
  const pools = [...poolsOf(client)];
  const sum = (count: (pool: Pool) => number | undefined) =>
    pools.reduce((total, pool) => total + (count(pool) ?? 0), 0);
  return {
    inUse: sum((pool) => pool.currentCheckedOutCount),
    idle: sum((pool) => pool.availableConnectionCount),
    opening: sum((pool) => pool.pendingConnectionCount),
    waiting: sum((pool) => pool.waitQueueSize),
  };
}
