/** What one delivery costs, as measured. CPU in milliseconds, the rest in bytes. */
export interface DeliveryCost {
  readonly gatewayCpu: number;
  readonly primaryCpu: number;
  /** Replication included. */
  readonly networkIn: number;
  readonly networkOut: number;
  /** Journal and data files of the primary. */
  readonly written: number;
  /** On each member, with indexes. */
  readonly stored: number;
  readonly toReceiver: number;
}

/** What is assumed and not measured. Prices in USD a month. */
export interface Assumptions {
  /** The share of each resource that is used at the planned rate. */
  readonly used: number;
  readonly retentionDays: number;
  readonly memberCores: number;
  /** Bytes a second that a member's volume writes. */
  readonly volumeWrites: number;
  /** Bytes that a member's volume holds. */
  readonly volumeSize: number;
  /** Bytes a second that a machine sends, and as many that it receives. */
  readonly machineNetwork: number;
  /** What a delivery costs each shard's primary in CPU beside others, in multiples of what it costs without shards. */
  readonly shardOverhead: number;
  /** Cores of `mongos` beside each busy core of a gateway, where there are shards. */
  readonly mongosCores: number;
  readonly configCores: number;
  /** Of one core with its memory. */
  readonly corePrice: number;
  /** Of a gigabyte (10⁹ bytes) stored. */
  readonly storagePrice: number;
  /** Of a gigabyte that is sent to receivers. */
  readonly receiverTrafficPrice: number;
  /** Of a gigabyte between the zones of a region: half of what the primary receives, and all that it sends. */
  readonly zoneTrafficPrice: number;
}

/** Copies of the data: members of each replica set. */
const members = 3;
/** `deliveries.sweepInterval`. Seconds. */
const sweepInterval = 0.425;
const secondsADay = 86_400;
const daysAMonth = 30;
const gigabyte = 1e9;

/** The parts of a replica set that can be the first to saturate. */
export const resources = ['CPU', 'disk writes', 'network', 'storage'] as const;
export type Resource = (typeof resources)[number];

/** What a rate takes. Rates are a second, money is USD a month. */
export interface Capacity {
  readonly gatewayCores: number;
  readonly processes: number;
  /** Of the primary of one replica set without shards, the share that is used; above 1 it cannot. */
  readonly utilization: Readonly<Record<Resource, number>>;
  /** Of the replica set, at the planned use of each part. */
  readonly saturatesFirst: Resource;
  readonly shards: number;
  /** With the three config servers where there are shards. */
  readonly members: number;
  /** Sweeps that each shard answers. */
  readonly sweeps: number;
  /** Bytes on one member of each shard together. */
  readonly storedADay: number;
  /** Bytes on all members together, once the first ones expire. */
  readonly storedInAll: number;
  readonly bytesToReceivers: number;
  readonly price: Readonly<Record<'processes' | 'members' | 'storage' | 'traffic' | 'sum', number>>;
}

/** Deliveries a second that one process makes at the planned use of its core. */
export function ratePerProcess(cost: DeliveryCost, { used }: Assumptions): number {
  return (used * 1_000) / cost.gatewayCpu;
}

/** Deliveries a second that one replica set takes by each of its parts, at their planned use. */
export function ratesPerReplicaSet(cost: DeliveryCost, given: Assumptions): Record<Resource, number> {
  const { used } = given;
  return {
    CPU: (used * given.memberCores * 1_000) / cost.primaryCpu,
    'disk writes': (used * given.volumeWrites) / cost.written,
    network: (used * given.machineNetwork) / Math.max(cost.networkIn, cost.networkOut),
    storage: (used * given.volumeSize) / (cost.stored * secondsADay * given.retentionDays),
  };
}

function shardsFor(rate: number, cost: DeliveryCost, given: Assumptions): number {
  const rates = ratesPerReplicaSet(cost, given);
  if (Math.min(...Object.values(rates)) >= rate) return 1;
  const sharded = { ...rates, CPU: rates.CPU / given.shardOverhead };
  return Math.max(2, Math.ceil(rate / Math.min(...Object.values(sharded))));
}

/** What so many deliveries a second take, held all day. */
export function capacityFor(rate: number, cost: DeliveryCost, given: Assumptions): Capacity {
  const rates = ratesPerReplicaSet(cost, given);
  const share = (resource: Resource) => (given.used * rate) / rates[resource];
  const shards = shardsFor(rate, cost, given);
  const isSharded = shards > 1;
  const gatewayCores = (rate * cost.gatewayCpu) / 1_000;
  const processes = Math.max(2, Math.ceil(gatewayCores / given.used));
  const storedADay = rate * cost.stored * secondsADay;
  const storedInAll = storedADay * given.retentionDays * members;
  const aMonth = (bytesASecond: number) => (bytesASecond * secondsADay * daysAMonth) / gigabyte;
  const price = {
    processes: (processes + (isSharded ? gatewayCores * given.mongosCores : 0)) * given.corePrice,
    members: (shards * members * given.memberCores + (isSharded ? members * given.configCores : 0)) * given.corePrice,
    // paid for at the planned use of the volumes
    storage: (storedInAll / given.used / gigabyte) * given.storagePrice,
    traffic:
      aMonth(rate * cost.toReceiver) * given.receiverTrafficPrice +
      aMonth(rate * (cost.networkIn / 2 + cost.networkOut)) * given.zoneTrafficPrice,
  };
  return {
    gatewayCores,
    processes,
    utilization: {
      CPU: share('CPU'),
      'disk writes': share('disk writes'),
      network: share('network'),
      storage: share('storage'),
    },
    saturatesFirst: resources.reduce((first, one) => (rates[one] < rates[first] ? one : first)),
    shards,
    members: shards * members + (isSharded ? members : 0),
    sweeps: processes / sweepInterval,
    storedADay,
    storedInAll,
    bytesToReceivers: rate * cost.toReceiver,
    price: { ...price, sum: price.processes + price.members + price.storage + price.traffic },
  };
}
