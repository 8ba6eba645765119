import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import { fakeWebhooks } from '../delivery-services.ts';
import { type Deliveries, type Next, openDeliveries, type StoredDeliveries } from './harness.ts';
import { pendingDelivery } from './pending-delivery.ts';

const attempt = { deliveryId: 'dlv_1', attempt: 1 };
const ok = { status: 200, durationMs: 1, response: 'ok' };
const failure = { status: 500, code: 'http_500' as const, durationMs: 1, response: 'no' };

describe('An outcome that arrives after the lease has lapsed', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let processes: Deliveries;
  let deliveries: StoredDeliveries;
  /** Of the attempts that were recorded, whose they were and what the receiver answered. */
  let told: [owner: string, status: number | undefined][];

  before(async () => {
    database = await freshDatabase();
    processes = openDeliveries(database.connection);
    ({ deliveries } = processes);
  });
  beforeEach(async () => {
    told = [];
    await deliveries.deleteMany({});
    await deliveries.create(pendingDelivery('dlv_1'));
  });
  after(() => database.drop());

  /** @param answer of the receiver to manual attempts */
  const worker = (owner: string, answer: typeof ok | typeof failure = ok) => {
    const onAttempt = ({ status }: { readonly status?: number }) => void told.push([owner, status]);
    const webhooks = fakeWebhooks();
    webhooks.add('http://127.0.0.1:9/');
    return {
      scheduled: processes.claims(owner, undefined, { onAttempt }),
      manual: processes.manual({
        owner,
        onAttempt,
        // the request was sent before the process stood still
        send: async () => answer,
        target: webhooks.forDelivery,
      }),
    };
  };
  async function found() {
    const { state, attempt, attempts, lease, claimableAt } = await deliveries.findById('dlv_1').orFail().lean();
    const made = attempts.map(({ number, status }) => [number ?? 'manual', status]);
    return { state, attempt, attempts: made, isFree: lease === null && claimableAt === undefined };
  }

  const stopped = () => worker('stopped');
  /** A claim whose lease has lapsed since, however long that took. */
  async function lapsed<C extends { heldUntil: number }>(claiming: Promise<C | null>): Promise<C> {
    const claim = (await claiming) ?? expect.fail('it was not claimed');
    claim.heldUntil = performance.now();
    const past = new Date(0);
    const isManual = { $ne: [{ $type: '$manual' }, 'missing'] };
    const manual = { $cond: [isManual, { $mergeObjects: ['$manual', { until: past }] }, '$$REMOVE'] };
    await deliveries.collection.updateOne({}, [{ $set: { claimableAt: past, manual } }]);
    return claim;
  }
  /** Two claims of one attempt: that of a worker which was stopped, and that of whoever has taken it since. */
  async function twoClaims() {
    const late = await lapsed(stopped().scheduled.claim(attempt));
    const other = (await worker('other').scheduled.claim(attempt)) ?? expect.fail('it was not claimed');
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
      if (next) await worker('other').scheduled.record(other, failure, next);
      expect(await stopped().scheduled.record(late, ok, { state: 'delivered' })).to.equal('late');

      expect(await found()).to.deep.equal(delivered);
      expect(told.at(-1)).to.deep.equal(['stopped', 200]);
      expect(await stopped().scheduled.record(late, ok, { state: 'delivered' })).not.to.equal('lost');
      expect(await worker('other').scheduled.record(other, failure, { retryIn: 0 })).to.equal('lost');
      expect(told.at(-1)).to.deep.equal(['stopped', 200]);
      expect(await found()).to.deep.equal(delivered);
    });
  }

  it('marks a delivery that was canceled since as delivered', async () => {
    const { late, other } = await twoClaims();
    await worker('other').scheduled.cancel(other, 'webhook_inactive');
    await stopped().scheduled.record(late, ok, { state: 'delivered' });
    expect(await found()).to.deep.equal(delivered);
  });

  it('changes nothing when it is a failure, nor when the attempt has succeeded since', async () => {
    const { late, other } = await twoClaims();
    expect(await stopped().scheduled.record(late, failure, { retryIn: 0 })).to.equal('lost');
    await worker('other').scheduled.record(other, { ...ok, status: 204 }, { state: 'delivered' });
    expect(await stopped().scheduled.record(late, ok, { state: 'delivered' })).to.equal('lost');
    expect(told).to.deep.equal([['other', 204]]);
    expect(await found()).to.deep.equal({ ...delivered, attempts: [[1, 204]] });
  });

  it('of a manual attempt is recorded beside a scheduled one that began since', async () => {
    const manual = await lapsed(stopped().manual.claim('usr_1', 'dlv_1'));
    const scheduled = (await worker('other').scheduled.claim(attempt)) ?? expect.fail('it was not claimed');
    await stopped().manual.make(manual);
    expect(told).to.deep.equal([['stopped', 200]]);
    const { scheduled: other } = worker('other');
    expect(await other.record(scheduled, ok, { state: 'delivered' })).not.to.equal('lost');
    const both = {
      ...delivered,
      attempts: [
        ['manual', 200],
        [1, 200],
      ],
    };
    expect(await found()).to.deep.equal(both);
    await stopped().manual.make(manual);
    expect(await found()).to.deep.equal(both);
  });

  it('of a manual attempt is recorded, even if another manual one has begun since', async () => {
    const late = await lapsed(stopped().manual.claim('usr_1', 'dlv_1'));
    const other = (await worker('other').manual.claim('usr_1', 'dlv_1')) ?? expect.fail('it was not claimed');
    await stopped().manual.make(late);
    await worker('other', failure).manual.make(other);
    expect(told).to.deep.equal([
      ['stopped', 200],
      ['other', 500],
    ]);
    expect(await found()).to.deep.equal({
      ...delivered,
      attempts: [
        ['manual', 200],
        ['manual', 500],
      ],
    });
  });
});
