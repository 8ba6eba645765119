import { expect } from 'chai';
import { freshDatabase } from '../support/mongo.ts';
import { payment, rejection, startEvents, type TestEvents } from './harness.ts';

describe('an envelope', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let events: TestEvents;
  before(async () => {
    database = await freshDatabase();
    events = await startEvents(database.connection);
  });
  after(async () => {
    await events.close();
    await database.drop();
  });

  const bodyOf = async (id: string) => {
    const stored = (await events.events.findById(id).lean())?.body;
    return Buffer.from((stored as unknown as { buffer: Buffer }).buffer);
  };

  it('is JSON with id, type, created and data, in that order', async () => {
    const startedAt = Date.now();
    const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 2 };
    const { id, created } = await events.publish({ type: 'credits.low', userId: 'usr_1', data });
    expect((await bodyOf(id)).toString()).to.equal(
      `{"id":"${id}","type":"credits.low","created":"${created}","data":${JSON.stringify(data)}}`,
    );
    expect(created).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(Date.parse(created)).to.be.within(startedAt, Date.now());
  });

  it('has the same content hash whatever the order of its keys', async () => {
    const backwards = Object.fromEntries(Object.entries(payment.data).reverse()) as typeof payment.data;
    const one = await events.publish(payment);
    const other = await events.publish({ ...payment, data: backwards });
    expect(other.id).to.not.equal(one.id);
    const [first, second] = await Promise.all([one, other].map(({ id }) => events.events.findById(id).lean()));
    expect(first?.contentHash).to.have.length.above(0).and.equal(second?.contentHash);
  });

  it('is refused above 256 KiB, so that every receiver can take it', async () => {
    const failed = (reason: string) => {
      const { credits_added: _, ...data } = payment.data;
      return events.publish({ type: 'payment.failed', userId: 'usr_1', data: { ...data, reason } });
    };
    const { length } = await bodyOf((await failed('x')).id);
    const longest = 'x'.repeat(1 + 262_144 - length);
    expect((await bodyOf((await failed(longest)).id)).length).to.equal(262_144);
    const { code, param, message } = await rejection(failed(`${longest}x`));
    expect({ code, param }).to.deep.equal({ code: 'invalid_event_data', param: 'data' });
    expect(message).to.match(/data: makes an event of 262145 bytes; the maximum is 262144/);
  });
});
