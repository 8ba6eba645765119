import { expect } from 'chai';
import express from 'express';
import { createModelGateway, type ModelGateway } from '../../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { newId } from '../../support/ids.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';
import { low } from '../over-http.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

interface StoredDelivery {
  _id: string;
  eventId: string;
  [field: string]: unknown;
}

interface StoredEvent {
  _id: string;
  created: Date;
  body: Buffer;
  idempotencyKey: string;
}

describe('Deliveries of an event that no worker has taken yet', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: ModelGateway;
  let receiver: TestReceiver;
  let server: Awaited<ReturnType<typeof listen>>;
  let headers: Record<string, string>;
  let webhookIds: string[];

  beforeEach(async () => {
    database = await freshDatabase();
    receiver = await startReceiver(200);
    const options = {
      ...loopbackOptions,
      deliveries: { sweepInterval: 50 },
      limits: { readsPerMinute: 1_000_000 },
      secretKeys: [newSecretKey()],
    };
    gateway = await createModelGateway({ ...options, mongo: database.connection });
    server = await listen(express().use(gateway.router));
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    webhookIds = [];
    for (const path of ['/a', '/b', '/c']) {
      const url = `${receiver.url}${path}`;
      const { id } = await gateway.webhooks.create('usr_1', { url, events: ['credits.low'], secret: 'long-enough' });
      webhookIds.push(id);
    }
  });
  afterEach(async () => {
    await server.close();
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  async function call(method: string, path: string, body?: object) {
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(`${server.url}/v1${path}`, init);
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    return { status: response.status, body: (await response.json()) as any };
  }
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const list = async (query: string): Promise<any[]> => (await call('GET', `/deliveries?${query}`)).body.data;
  const stored = () => database.connection.collection<StoredDelivery>('gateway_deliveries');
  const events = () => database.connection.collection<StoredEvent>('gateway_events');
  const [ofOne, ofAll] = [() => webhookIds[0] ?? '', () => [...webhookIds].sort()];

  it('are listed as pending, and shown', async () => {
    const { id } = await gateway.publish(low);
    const listed = await list(`event_id=${id}`);

    expect(await stored().countDocuments()).to.equal(0);
    expect(listed.map(({ webhook_id }) => webhook_id).sort()).to.deep.equal(ofAll());
    for (const delivery of listed) {
      expect(delivery).to.include({ event_id: id, state: 'pending', attempts_made: 0, in_flight: false });
      const shown = await call('GET', `/deliveries/${delivery.id}`);
      expect(shown.status).to.equal(200);
      expect(shown.body).to.deep.include(delivery);
      expect(JSON.parse(shown.body.body).id).to.equal(id);
    }
    expect(await list(`webhook_id=${ofOne()}`)).to.have.length(1);
    expect(await list('state=pending&type=credits.low')).to.have.length(3);
    expect(await list('state=delivered')).to.have.length(0);
    expect(await list('type=credits.depleted')).to.have.length(0);
    expect(await list(`until=${new Date(Date.now() - 60_000).toISOString()}`)).to.have.length(0);
    const { key } = await gateway.keys.create({ userId: 'usr_2' });
    headers = { ...headers, authorization: `Bearer ${key}` };
    expect((await call('GET', `/deliveries/${listed[0].id}`)).status).to.equal(404);
    expect(await list('')).to.deep.equal([]);
  });

  it('are listed page by page, each once, together with stored ones', async () => {
    await Promise.all(Array.from({ length: 6 }, () => gateway.publish(low)));
    const all = await list('');
    await events().updateMany({}, { $set: { fanOutAt: new Date(Date.now() + 60_000) } });
    const some = all.filter((_, i) => i % 3 === 0);
    for (const { id, event_id: eventId, webhook_id: webhookId, created_at } of some) {
      const at = new Date(created_at);
      const own = { _id: id, eventId, webhookId, userId: 'usr_1', type: 'credits.low', test: false };
      const schedule = { state: 'delivered', attempt: 1, maxAttempts: 6, starts: 0, lease: null } as const;
      await stored().insertOne({ ...own, ...schedule, attempts: [], dueAt: at, createdAt: at, endedAt: at });
    }
    const paged: { id: string; state: string }[] = [];
    for (let after = ''; ; after = `&after=${paged.at(-1)?.id}`) {
      const { body } = await call('GET', `/deliveries?limit=5${after}`);
      paged.push(...body.data);
      if (!body.has_more) break;
    }

    expect(paged.map(({ id }) => id)).to.deep.equal(all.map(({ id }) => id));
    expect(paged.filter(({ state }) => state === 'delivered')).to.have.length(some.length);
    expect(await list('state=pending')).to.have.length(all.length - some.length);
  });

  it('count as pending where the event is shown, and in lists of events by state', async () => {
    const { id } = await gateway.publish(low);
    const [first] = await list('');
    const ids = async (state: string) =>
      (await call('GET', `/events?state=${state}`)).body.data.map((event: { id: string }) => event.id);
    const shown = async () => (await call('GET', `/events/${id}`)).body;

    expect(await shown()).to.deep.include({
      state: 'pending',
      deliveries: { pending: 3, delivered: 0, failed: 0, canceled: 0 },
    });
    expect(await ids('pending')).to.deep.equal([id]);
    const at = new Date(first.created_at);
    const own = { _id: first.id, eventId: id, webhookId: first.webhook_id, userId: 'usr_1', type: 'credits.low' };
    const schedule = { test: false, state: 'delivered', attempt: 1, maxAttempts: 6, starts: 0, lease: null } as const;
    await stored().insertOne({ ...own, ...schedule, attempts: [], dueAt: at, createdAt: at, endedAt: at });
    expect(await shown()).to.deep.include({
      state: 'pending',
      deliveries: { pending: 2, delivered: 1, failed: 0, canceled: 0 },
    });
    expect(await ids('pending')).to.deep.equal([id]);
    expect(await ids('delivered')).to.deep.equal([]);
    await stored().updateOne({ _id: first.id }, { $set: { state: 'failed' } });
    expect(await ids('failed')).to.deep.equal([id]);
    expect(await ids('pending')).to.deep.equal([]);
  });

  it('count as pending in lists by state, even if one millisecond has more events than a list reads', async () => {
    const { id: older } = await gateway.publish(low);
    const like = (await events().findOne({ _id: older })) as StoredEvent;
    const created = new Date(like.created.getTime() + 1);
    const ofOneMillisecond = Array.from({ length: 2_001 }, () => {
      const _id = newId('evt', created.getTime());
      const body = Buffer.from(JSON.stringify({ ...JSON.parse(like.body.toString()), id: _id }));
      return { ...like, _id, created, body, idempotencyKey: _id };
    });
    await events().insertMany(ofOneMillisecond);
    const seen: string[] = [];
    for (let after = '', hasMore = true; hasMore; ) {
      const { body } = await call('GET', `/events?state=pending&limit=100${after}`);
      seen.push(...body.data.map(({ id }: { id: string }) => id));
      hasMore = body.has_more;
      after = `&after=${body.next_after ?? seen.at(-1)}`;
    }

    const ids = [...ofOneMillisecond.map(({ _id }) => _id), older];
    expect(seen).to.deep.equal(ids.sort().reverse());
    expect((await call('GET', '/events?state=delivered')).body).to.deep.include({ data: [] });
  });

  it('are listed despite a broken event', async () => {
    await gateway.publish(low);
    const { id } = await gateway.publish(low);
    await events().updateOne({ _id: id }, { $set: { targets: null, deliveryKey: null } } as object);

    expect(await list('')).to.have.length(3);
    expect((await call('GET', '/events?state=pending')).body.data).to.have.length(1);
  });

  it('can be resent, and are not sent again by the worker that takes the event', async () => {
    const { id } = await gateway.publish(low);
    const [first] = await list('');
    const { status, body } = await call('POST', `/deliveries/${first.id}/resend`);

    expect(status).to.equal(200);
    expect(body).to.include({ state: 'delivered', attempts_made: 0 });
    expect(await stored().distinct('starts'), 'no attempt has begun before it was stored').to.deep.equal([0]);
    await gateway.start();
    await eventually(
      () => list('state=delivered'),
      ({ length }) => length === 3,
    );
    expect(receiver.received).to.have.length(3);
    expect((await call('GET', `/events/${id}`)).body.state).to.equal('delivered');
  });

  it('are not resent while a process holds the event for its first attempts', async () => {
    await gateway.publish(low);
    const [first] = await list('');
    await events().updateMany({}, { $set: { fanOutAt: new Date(Date.now() + 60_000), fanOutLeases: 1 } });
    const { status, body } = await call('POST', `/deliveries/${first.id}/resend`);

    expect([status, body.error.code]).to.deep.equal([409, 'attempt_in_flight']);
    expect(receiver.received).to.have.length(0);
  });

  it('are canceled when their webhook was deleted, paused or changed before; recovery finds them', async () => {
    const [deleted = '', paused = '', changed = ''] = webhookIds;
    await gateway.publish(low);
    const since = new Date(Date.now() - 60_000).toISOString();
    await gateway.webhooks.remove('usr_1', deleted);
    await gateway.webhooks.update('usr_1', paused, { active: false });
    await gateway.webhooks.update('usr_1', changed, { events: ['credits.depleted'] });
    await gateway.start();
    const ended = await eventually(
      () => list('state=canceled'),
      ({ length }) => length === 3,
    );

    const reasons = Object.fromEntries(ended.map(({ webhook_id, reason }) => [webhook_id, reason]));
    expect(reasons).to.deep.equal({
      [deleted]: 'webhook_deleted',
      [paused]: 'webhook_inactive',
      [changed]: 'unsubscribed',
    });
    expect(receiver.received).to.have.length(0);
    await gateway.webhooks.update('usr_1', paused, { active: true });
    expect((await call('POST', `/webhooks/${paused}/recover`, { since })).status).to.equal(202);
    await receiver.count(1);
  });
});
