import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { freshDatabase } from '../support/mongo.ts';
import { payment, rejection, startEvents, type TestEvents } from './harness.ts';

describe('publish', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let events: TestEvents;

  before(async () => {
    database = await freshDatabase();
    events = await startEvents(database.connection);
  });
  beforeEach(async () => {
    await events.events.deleteMany({});
    events.fannedOut.length = 0;
  });
  after(() => database.drop());

  it('stores the envelope as the bytes that will be sent, with the webhooks it goes to', async () => {
    const event = await events.publish(payment);
    const [stored] = await events.stored();

    expect(event.id).to.match(/^evt_[0-9a-z]{26}$/);
    expect(new Date(event.created).toISOString()).to.equal(event.created);
    expect(stored?.body.toString()).to.equal(
      JSON.stringify({ id: event.id, type: event.type, created: event.created, data: payment.data }),
    );
    expect(stored).to.deep.include({ _id: event.id, targets: ['wh_1'], skipped: ['wh_2'], fanOut: 'pending' });
    expect(events.fannedOut).to.deep.equal([event.id]);
  });

  it('makes an idempotency key when none is given, and returns it', async () => {
    const first = await events.publish(payment);
    const again = await events.publish(payment, { idempotencyKey: first.idempotencyKey });

    expect(again).to.deep.equal(first);
  });

  it('returns the same event for the same key and content, whatever the order of its fields', async () => {
    const first = await events.publish(payment, { idempotencyKey: 'order-1' });
    const data = Object.fromEntries(Object.entries(payment.data).reverse());
    const again = await events.publish({ ...payment, data }, { idempotencyKey: 'order-1' });

    expect(again.id).to.equal(first.id);
    expect(again.created).to.equal(first.created);
    expect(await events.stored()).to.have.length(1);
  });

  it('resumes the fan-out of an event that was published before, unless it is done', async () => {
    const { id } = await events.publish(payment, { idempotencyKey: 'order-2' });
    await events.publish(payment, { idempotencyKey: 'order-2' });
    await events.events.updateOne({ _id: id }, { fanOut: 'done' });
    await events.publish(payment, { idempotencyKey: 'order-2' });

    expect(events.fannedOut).to.deep.equal([id, 'woken']);
  });

  it('refuses the same key with other data, and with another type', async () => {
    await events.publish(payment, { idempotencyKey: 'order-3' });
    const otherData = { ...payment, data: { ...payment.data, amount: 21 } };
    const otherType = {
      type: 'credits.low',
      userId: 'usr_1',
      data: { user_id: 'usr_1', credits_remaining: 1, threshold: 5 },
    };

    for (const input of [otherData, otherType]) {
      const { code, param } = await rejection(events.publish(input, { idempotencyKey: 'order-3' }));
      expect([code, param]).to.deep.equal(['idempotency_conflict', 'idempotencyKey']);
    }
    expect(await events.stored()).to.have.length(1);
  });

  it('keeps the keys of different users apart', async () => {
    const mine = await events.publish(payment, { idempotencyKey: 'order-4' });
    const other = { ...payment, userId: 'usr_2' };
    const theirs = await events.publish(other, { idempotencyKey: 'order-4' });

    expect(theirs.id).not.to.equal(mine.id);
  });

  it('makes one event of twenty publishes with one key at the same moment', async () => {
    const calls = Array.from({ length: 20 }, () => events.publish(payment, { idempotencyKey: 'order-5' }));
    const ids = (await Promise.all(calls)).map(({ id }) => id);

    expect(new Set(ids).size).to.equal(1);
    expect(await events.stored()).to.have.length(1);
  });

  it('stores the data as it was when it was called, even if the caller changes it afterwards', async () => {
    const data = { ...payment.data };
    const publishing = events.publish({ ...payment, data });
    Object.assign(data, { amount: 99 });
    await publishing;
    const [stored] = await events.stored();

    expect(JSON.parse(stored?.body.toString() ?? '').data.amount).to.equal(20);
  });

  const refused: [string, object, string, string][] = [
    ['an unknown type', { type: 'payment.lost' }, 'unknown_event_type', 'type'],
    ['a missing field', { data: {} }, 'invalid_event_data', 'data'],
    ['a field of the wrong type', { data: { ...payment.data, amount: '20' } }, 'invalid_event_data', 'data.amount'],
    ['a BigInt', { data: { ...payment.data, amount: 20n } }, 'invalid_event_data', 'data.amount'],
    ['a NaN', { data: { ...payment.data, amount: Number.NaN } }, 'invalid_event_data', 'data.amount'],
    ['no user', { userId: '' }, 'invalid_value', 'userId'],
    ['a user with a NUL', { userId: 'usr\0' }, 'invalid_value', 'userId'],
    ['a user that is an object', { userId: { $ne: null } }, 'invalid_value', 'userId'],
  ];
  for (const [what, change, code, param] of refused) {
    it(`refuses ${what}, names it and stores nothing`, async () => {
      const error = await rejection(events.publish({ ...payment, ...change }));

      expect(error.code).to.equal(code);
      expect(error.param).to.match(new RegExp(`^${param.replace('.', '\\.')}`));
      expect(await events.stored()).to.have.length(0);
    });
  }

  it('refuses an idempotency key that is empty, too long, not valid Unicode or not a string', async () => {
    for (const idempotencyKey of ['', 'x'.repeat(257), 'a\ud800', { $gt: '' } as unknown as string]) {
      const { code, param } = await rejection(events.publish(payment, { idempotencyKey }));
      expect([code, param]).to.deep.equal(['invalid_value', 'idempotencyKey']);
    }
  });

  it('publishes a test event to one webhook, with the example of its type, about the account itself', async () => {
    const { event } = await events.publishTest({
      userId: 'usr_7',
      type: 'credits.low',
      webhookId: 'wh_7',
      lease: 4_500,
    });
    const [stored] = await events.stored();

    expect(stored).to.deep.include({ _id: event._id, targets: ['wh_7'], skipped: [], test: true });
    const { data } = JSON.parse(String(stored?.body));
    expect(data).to.include({ user_id: 'usr_7' }).and.have.property('credits_remaining');
  });

  it('hashes the type and the canonical JSON of the data with SHA-256', async () => {
    await events.publish(payment);
    const [stored] = await events.stored();
    const canonical = '{"amount":20,"credits_added":2000,"currency":"usd","payment_id":"pay_1","user_id":"usr_1"}';

    expect(stored?.contentHash).to.equal(createHash('sha256').update(`payment.completed\n${canonical}`).digest('hex'));
  });
});
