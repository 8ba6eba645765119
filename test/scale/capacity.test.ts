import { expect } from 'chai';
import { type Assumptions, capacityFor, type DeliveryCost, ratePerProcess, ratesPerReplicaSet } from './capacity.ts';

/** Numbers that are easy to work with by hand. */
const cost: DeliveryCost = {
  gatewayCpu: 0.5,
  primaryCpu: 0.25,
  networkIn: 2_000,
  networkOut: 4_000,
  written: 5_000,
  stored: 1_000,
  toReceiver: 1_000,
};

const given: Assumptions = {
  used: 0.5,
  retentionDays: 10,
  memberCores: 8,
  volumeWrites: 100e6,
  volumeSize: 8.64e12,
  machineNetwork: 1e9,
  shardOverhead: 2,
  mongosCores: 0.2,
  configCores: 2,
  corePrice: 10,
  storagePrice: 0.1,
  receiverTrafficPrice: 0.05,
  zoneTrafficPrice: 0.01,
};

describe('The capacity model', () => {
  it('gives the deliveries per second of a process and of a replica set at the planned use', () => {
    // half of a core, at 0.5 ms
    expect(ratePerProcess(cost, given)).to.equal(1_000);
    expect(ratesPerReplicaSet(cost, given)).to.deep.equal({
      // 4 cores at 0.25 ms
      CPU: 16_000,
      // 50 MB/s at 5 kB
      'disk writes': 10_000,
      // 500 MB/s at 4 kB, the larger of both ways
      network: 125_000,
      // 4.32 TB at 864 MB for each delivery a second
      storage: 5_000,
    });
  });

  it('plans one replica set where no part of it is used more than planned', () => {
    const found = capacityFor(1_000, cost, given);
    expect(found).to.include({ gatewayCores: 0.5, processes: 2, saturatesFirst: 'storage', shards: 1, members: 3 });
    expect(found.utilization).to.deep.equal({ CPU: 0.03125, 'disk writes': 0.05, network: 0.004, storage: 0.1 });
    // 1 MB/s for a day; ten days of it on three members
    expect(found).to.include({ storedADay: 86.4e9, storedInAll: 2_592e9, bytesToReceivers: 1e6 });
    expect(found.sweeps).to.be.closeTo(4.7, 0.01);
    expect(found.price.processes).to.equal(20);
    expect(found.price.members).to.equal(240);
    // 5,184 GB of volumes
    expect(found.price.storage).to.be.closeTo(518.4, 1e-6);
    // 2,592 GB a month to receivers; half of 5,184 GB and 10,368 GB between zones
    expect(found.price.traffic).to.be.closeTo(129.6 + 129.6, 1e-6);
    expect(found.price.sum).to.be.closeTo(20 + 240 + 518.4 + 259.2, 1e-6);
  });

  it('plans as many shards as the part that saturates first needs, with config servers and mongos', () => {
    const found = capacityFor(20_000, cost, given);
    expect(found).to.include({ gatewayCores: 10, processes: 20, shards: 4, members: 15 });
    // 20 processes and 2 cores of mongos
    expect(found.price.processes).to.equal(220);
    // 96 cores of shards, 6 of config servers
    expect(found.price.members).to.equal(1_020);
  });

  it('counts the overhead of shards where the CPU saturates first', () => {
    const roomy = { ...given, retentionDays: 1, volumeWrites: 1e9 };
    expect(capacityFor(16_000, cost, roomy)).to.include({ saturatesFirst: 'CPU', shards: 1 });
    // a shard takes 8,000 where one replica set takes 16,000
    expect(capacityFor(16_001, cost, roomy)).to.include({ saturatesFirst: 'CPU', shards: 3, members: 12 });
  });
});
