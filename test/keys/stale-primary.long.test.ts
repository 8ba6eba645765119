import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createKeyModel } from '../../src/keys/model.ts';
import { createKeyService, type KeyService } from '../../src/keys/service.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { type Cluster, startCluster } from '../faults/cluster/cluster.ts';
import { makeStale, type StalePrimary } from '../support/database/stale-primary.ts';

const userId = 'usr_1';

/** The service alone: nothing is published, nothing joined in a transaction. */
function serviceAt(connection: Connection): KeyService {
  return createKeyService({
    keys: createKeyModel(connection, 'gateway_'),
    publish: async () => {},
    transaction: (fn) => fn(undefined),
    onLastUsedLost() {},
  });
}

describe('A key that a replaced primary does not know', function () {
  this.timeout(120_000);
  let cluster: Cluster;
  let stale: StalePrimary;
  let current: KeyService;

  before(async () => {
    cluster = await startCluster();
    const notes = cluster.connection.getClient().db(cluster.connection.name).collection('notes');
    await notes.insertOne({}, { writeConcern: { w: 3, wtimeout: 30_000 } });
    stale = await makeStale(cluster);
    current = serviceAt(cluster.connection);
  });
  after(async () => {
    await stale?.end();
    await cluster?.stop();
  });

  for (const [whose, account] of [
    ['with its account', userId],
    ['without its account', undefined],
  ] as const) {
    it(`gets an error there when it is revoked ${whose}; the new primary revokes it`, async () => {
      const { id, key } = await current.create({ userId });
      const error = await serviceAt(stale.connection)
        .revoke(id, account)
        .then(
          (revoked) => expect.fail(`it answered ${revoked}`),
          (reason: unknown) => reason,
        );
      expect(isUnavailable(error), String(error)).to.equal(true);
      expect(await current.revoke(id, account)).to.equal(true);
      expect(await current.authenticate(key)).to.equal(null);
    });
  }
});
