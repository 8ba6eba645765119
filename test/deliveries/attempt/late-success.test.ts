import { expect } from 'chai';
import { createClaims, createRecordLate, type Next, withLateSuccess } from '../../../src/deliveries/claims.ts';
import { createManualClaims } from '../../../src/deliveries/manual-attempt.ts';
import { createDeliveryModel, type DeliveryModel } from '../../../src/deliveries/model.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { pendingDelivery } from './pending-delivery.ts';

const retention = 1_000_000;
const ok = { status: 200, durationMs: 1, response: 'ok' };
const failure = { status: 500, code: 'http_500' as const, durationMs: 1, response: 'no' };

describe('An outcome that arrives after the lease has lapsed', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let deliveries: DeliveryModel;
  /** Deliveries that a late success has ended. */
  let ended: Set<string>;

  before(async () => {
    database = await freshDatabase();
    deliveries = createDeliveryModel(database.connection, 'gateway_');
  });
  beforeEach(async () => {
    ended = new Set();
    await deliveries.deleteMany({});
    await deliveries.create(pendingDelivery('dlv_1'));
  });
  after(() => database.drop());

  const worker = (owner: string, lease = 9_000) => {
    const parts = { deliveries, owner, lease, retention };
    return {
      scheduled: withLateSuccess(createClaims(parts), createRecordLate(parts), (id) => ended.add(id)),
      manual: createManualClaims(parts),
    };
  };
  async function found() {
    const { state, attempt, attempts, lease, claimableAt } = await deliveries.findById('dlv_1').orFail().lean();
    const made = attempts.map(({ number, status }) => [number ?? 'manual', status]);
    return { state, attempt, attempts: made, isFree: lease === null && claimableAt === undefined };
  }

  async function untilClaimed<Claim>(claim: () => Promise<Claim | null>): Promise<Claim> {
    for (;;) {
      // one whose answer took longer than its lease fails, and is given back
      const claimed = await claim().catch(() => null);
      if (claimed) return claimed;
    }
  }
  const stopped = () => worker('stopped', 500);
  /** Two claims of one attempt: that of a worker which was stopped, and that of whoever has taken it since. */
  async function twoClaims() {
    const late = await untilClaimed(() => stopped().scheduled.claim('dlv_1', 1));
    const other = await untilClaimed(() => worker('other').scheduled.claim('dlv_1', 1));
    return { late, other };
  }

  const delivered = { state: 'delivered', attempt: 1, attempts: [[1, 200]], isFree: true };
  const courses: [what: string, failed: Next | null][] = [
    ['is under way again', null],
    ['has failed since, and another is due', { retryIn: 0 }],
    ['has failed since, as the last one', { state: 'failed' }],
  ];
  for (const [what, next] of courses) {
    it(`ends the delivery when it is a success, even if the attempt ${what}`, async () => {
      const { late, other } = await twoClaims();
      if (next) await worker('other').scheduled.finish(other, failure, next);
      expect(await stopped().scheduled.finish(late, ok, { state: 'delivered' })).to.equal(true);

      expect(await found()).to.deep.equal(delivered);
      expect([...ended], 'what it waits for is over').to.deep.equal(['dlv_1']);
      expect(await stopped().scheduled.finish(late, ok, { state: 'delivered' })).to.equal(true);
      expect(await worker('other').scheduled.finish(other, failure, { retryIn: 0 })).to.equal(false);
      expect(await found()).to.deep.equal(delivered);
    });
  }

  it('marks a delivery that was canceled since as delivered', async () => {
    const { late, other } = await twoClaims();
    await worker('other').scheduled.cancel(other, 'webhook_inactive');
    await stopped().scheduled.finish(late, ok, { state: 'delivered' });
    expect(await found()).to.deep.equal(delivered);
  });

  it('changes nothing when it is a failure, nor when the attempt has succeeded since', async () => {
    const { late, other } = await twoClaims();
    expect(await stopped().scheduled.finish(late, failure, { retryIn: 0 })).to.equal(false);
    await worker('other').scheduled.finish(other, { ...ok, status: 204 }, { state: 'delivered' });
    expect(await stopped().scheduled.finish(late, ok, { state: 'delivered' })).to.equal(false);
    expect(await found()).to.deep.equal({ ...delivered, attempts: [[1, 204]] });
  });

  it('of a manual attempt is recorded beside a scheduled one that began since', async () => {
    const manual = await untilClaimed(() => stopped().manual.claim('usr_1', 'dlv_1'));
    const scheduled = await untilClaimed(() => worker('other').scheduled.claim('dlv_1', 1));
    expect(await stopped().manual.finish(manual, ok)).to.equal(true);
    expect(await worker('other').scheduled.finish(scheduled, ok, { state: 'delivered' })).to.equal(true);
    const both = {
      ...delivered,
      attempts: [
        ['manual', 200],
        [1, 200],
      ],
    };
    expect(await found()).to.deep.equal(both);
    expect(await stopped().manual.finish(manual, ok)).to.equal(true);
    expect(await found()).to.deep.equal(both);
  });

  it('of a manual attempt is recorded, even if another manual one has begun since', async () => {
    const late = await untilClaimed(() => stopped().manual.claim('usr_1', 'dlv_1'));
    const other = await untilClaimed(() => worker('other').manual.claim('usr_1', 'dlv_1'));
    expect(await stopped().manual.finish(late, ok)).to.equal(true);
    expect(await worker('other').manual.finish(other, failure)).to.equal(true);
    expect(await found()).to.deep.equal({
      ...delivered,
      attempts: [
        ['manual', 200],
        ['manual', 500],
      ],
    });
  });
});
