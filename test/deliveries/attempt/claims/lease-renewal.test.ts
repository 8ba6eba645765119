import { expect } from 'chai';
import { createClaims } from '../../../../src/deliveries/claims.ts';
import { createManualClaims } from '../../../../src/deliveries/manual-attempt.ts';
import { createDeliveryModel, type DeliveryModel } from '../../../../src/deliveries/model.ts';
import { createLeaseRenewal } from '../../../../src/mongo/lease.ts';
import { silentLogger } from '../../../support/logger.ts';
import { freshDatabase } from '../../../support/mongo.ts';
import { eventually } from '../../../support/until.ts';
import { pendingDelivery } from '../pending-delivery.ts';

const lease = 3_000;
const retention = 1_000_000;

describe('A lease', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let deliveries: DeliveryModel;

  before(async () => {
    database = await freshDatabase();
    deliveries = createDeliveryModel(database.connection, 'gateway_');
  });
  beforeEach(async () => {
    await deliveries.deleteMany({});
    await deliveries.insertMany([pendingDelivery('dlv_1'), pendingDelivery('dlv_2')]);
  });
  after(() => database.drop());

  const kinds = {
    scheduled() {
      const claims = createClaims({ deliveries, owner: 'worker', lease, retention });
      return { claims, claim: (id: string) => claims.claim(id, 1), lose: { lease: null } };
    },
    manual() {
      const claims = createManualClaims({ deliveries, owner: 'worker', lease, retention });
      return { claims, claim: (id: string) => claims.claim('usr_1', id), lose: { $unset: { manual: 1 } } };
    },
  };
  for (const [kind, open] of Object.entries(kinds)) {
    it(`on a ${kind} attempt is certain while it is renewed, and not once another process has taken it`, async () => {
      const { claims, claim, lose } = open();
      const renewals: string[][] = [];
      const leases = createLeaseRenewal({
        async renew(held) {
          const renewed = await claims.renew(held);
          renewals.push(renewed.map(({ delivery }) => delivery._id).sort());
          return renewed;
        },
        lease,
        interval: 100,
        logger: silentLogger,
      });
      const [kept, lost] = [await claim('dlv_1'), await claim('dlv_2')];
      if (!kept || !lost) throw new Error('nothing was claimed');
      leases.hold(kept);
      leases.hold(lost);
      expect([leases.mayStillSend(kept), leases.mayStillSend(lost)]).to.deep.equal([true, true]);

      await deliveries.collection.updateOne({ _id: 'dlv_2' as never }, 'lease' in lose ? { $set: lose } : lose);
      // a process that was stopped meanwhile is certain again after its next renewal
      await eventually(
        () => [performance.now() > lost.heldUntil, leases.mayStillSend(kept)],
        (holds) => holds.every(Boolean),
      );
      expect(leases.mayStillSend(lost)).to.equal(false);
      expect(renewals.at(-1)).to.deep.equal(['dlv_1']);

      leases.drop(kept);
      leases.drop(lost);
      expect(leases.mayStillSend(kept)).to.equal(false);
    });
  }
});
