import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { eventually } from '../../../support/until.ts';
import { low, type Scene, startScene } from '../../over-http.ts';
import { startReceiver, type TestReceiver } from '../../receiver.ts';
import { eventIdOf, storeEnded } from './missed.ts';

describe('A recovery', () => {
  let scene: Scene;
  let receiver: TestReceiver;
  let webhookId: string;

  const since = () => new Date(Date.now() - 3_600_000).toISOString();
  const begin = (body: object = { since: since() }) => scene.call('POST', `/v1/webhooks/${webhookId}/recover`, body);
  const look = async (id: string) => (await scene.call('GET', `/v1/webhooks/${webhookId}/recoveries/${id}`)).body;
  const ended = (id: string) =>
    eventually(
      () => look(id),
      ({ state }) => state === 'done',
    );
  const pause = (active: boolean) => scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active });

  async function start(options = {}) {
    scene = await startScene({ retryDelays: [], fixed: { recoverRate: 1_000 }, ...options });
    webhookId = await scene.webhook(receiver.url);
  }

  beforeEach(async () => {
    receiver = await startReceiver(200);
  });
  afterEach(async () => {
    await scene.close();
    await receiver.stop();
  });

  it('resends every failed and canceled delivery once, and reports its progress', async () => {
    await start();
    const events = await storeEnded(scene.connection, webhookId, [
      ...Array(60).fill('failed'),
      ...Array(15).fill('canceled'),
      ...Array(5).fill('delivered'),
    ]);
    const { status, body } = await begin();
    expect(status).to.equal(202);
    expect(body).to.deep.include({ state: 'running', found: 75, resent: 0, webhook_id: webhookId, ended_at: null });
    expect(body.states).to.deep.equal(['failed', 'canceled', 'skipped']);

    const done = await ended(body.id);
    expect(done).to.include({ found: 75, resent: 75, delivered: 75, failed: 0 });
    expect(receiver.received.map(eventIdOf).sort()).to.deep.equal(events.slice(0, 75).sort());
    const { data } = (await scene.call('GET', '/v1/deliveries')).body;
    for (const delivery of data) expect(delivery).to.include({ state: 'delivered', attempts_made: 1 });
    const list = (await scene.call('GET', `/v1/webhooks/${webhookId}/recoveries`)).body;
    expect(list).to.deep.equal({ data: [done], has_more: false });
  });

  it('gives each one attempt, which changes nothing when it fails', async () => {
    await start();
    await storeEnded(scene.connection, webhookId, ['failed', 'failed', 'canceled']);
    receiver.answers(200, 500, 500);
    const done = await ended((await begin()).body.id);

    expect(done).to.include({ found: 3, resent: 3, delivered: 1, failed: 2 });
    // shows that nothing more happens
    await sleep(200);
    expect(receiver.received).to.have.length(3);
    const states = (await scene.stored.find().toArray()).map(({ state }) => state);
    expect(states.filter((state) => state === 'delivered')).to.have.length(1);
  });

  it('delivers events missed while the webhook was paused', async () => {
    await start();
    await pause(false);
    const missed = await Promise.all(Array.from({ length: 30 }, () => scene.gateway.publish(low)));
    const event = async () => (await scene.call('GET', `/v1/events/${missed[0]?.id}`)).body;
    expect(await event()).to.include({ state: 'none', skipped: 1 });
    await pause(true);
    const begun = (await begin()).body;
    expect(begun.found).to.equal(30);
    const done = await ended(begun.id);

    expect(done).to.include({ resent: 30, delivered: 30 });
    expect(receiver.received.map(eventIdOf).sort()).to.deep.equal(missed.map(({ id }) => id).sort());
    expect(await event()).to.deep.include({ state: 'delivered', skipped: 0 });
    expect((await ended((await begin()).body.id)).found).to.equal(0);
    expect(receiver.received).to.have.length(30);
  });

  it('gives a missed event its whole retry schedule', async () => {
    await start({ retryDelays: [10, 10, 10, 10, 10] });
    await pause(false);
    const { id } = await scene.gateway.publish(low);
    await pause(true);
    receiver.answers(500);
    const done = await ended((await begin({ since: since(), states: ['skipped'] })).body.id);
    expect(done).to.include({ resent: 1, delivered: 0, failed: 1 });

    const [{ id: deliveryId }] = (await scene.call('GET', `/v1/deliveries?event_id=${id}`)).body.data;
    const failed = await scene.delivery(deliveryId, ({ state }) => state === 'failed');
    expect(failed.attempts.map(({ number }: { number: number }) => number)).to.deep.equal([1, 2, 3, 4, 5, 6]);
    expect(receiver.received).to.have.length(6);
  });

  it('takes only the states and times asked for, and never test events', async () => {
    await start();
    await storeEnded(scene.connection, webhookId, ['failed', 'canceled', 'canceled']);
    receiver.answers(500, 200);
    await scene.call('POST', `/v1/webhooks/${webhookId}/test`, { type: 'credits.low' });
    const none = await begin({ since: new Date(Date.now() - 30_000).toISOString() });
    expect((await ended(none.body.id)).found).to.equal(0);
    const some = await begin({ since: since(), until: new Date().toISOString(), states: ['canceled'] });
    expect(await ended(some.body.id)).to.include({ found: 2, resent: 2 });
    expect(receiver.received).to.have.length(3);
  });

  it('stays within its rate', async () => {
    await start({ fixed: { recoverRate: 20 } });
    await storeEnded(scene.connection, webhookId, Array(20).fill('failed'));
    const began = performance.now();
    await ended((await begin()).body.id);
    expect(performance.now() - began).to.be.above(900);
  });

  it('runs once at a time per webhook, and ends early when the webhook is paused', async () => {
    await start({ fixed: { recoverRate: 20 } });
    await storeEnded(scene.connection, webhookId, Array(200).fill('failed'));
    const { body } = await begin();
    const second = await begin();
    expect([second.status, second.body.error.code]).to.deep.equal([409, 'recovery_running']);
    await receiver.count(3);
    await pause(false);
    const done = await ended(body.id);
    expect(done.resent).to.equal(receiver.received.length).and.be.below(200);
    const paused = await begin();
    expect([paused.status, paused.body.error.code]).to.deep.equal([409, 'webhook_inactive']);
  });

  it('does not delay new events', async () => {
    await start({ fixed: { recoverRate: 20 } });
    await storeEnded(scene.connection, webhookId, Array(200).fill('failed'));
    const { body } = await begin();
    await receiver.count(3);
    const published = await Promise.all(Array.from({ length: 10 }, () => scene.gateway.publish(low)));
    const arrived = async () => receiver.received.map(eventIdOf);
    await eventually(arrived, (ids) => published.every(({ id }) => ids.includes(id)));
    expect(await look(body.id)).to.include({ state: 'running', found: 200 });
    await pause(false);
    await ended(body.id);
  });

  it('sends each delivery once, and once more for each resend at the same time', async () => {
    await start({ fixed: { recoverRate: 200 } });
    await storeEnded(scene.connection, webhookId, Array(40).fill('failed'));
    receiver.answers(500);
    const ids = (await scene.stored.find().toArray()).map(({ _id }) => _id);
    const [{ body }, ...resent] = await Promise.all([
      begin(),
      ...ids.map((id) => scene.call('POST', `/v1/deliveries/${id}/resend`)),
    ]);
    const byHand = resent.filter(({ status }) => status === 200).length;
    const done = await ended(body.id);
    expect(done.resent).to.equal(40);
    expect(receiver.received).to.have.length(40 + byHand);
  });

  const refused: [string, (now: number) => object, string][] = [
    ['a beginning in the future', (now) => ({ since: new Date(now + 60_000).toISOString() }), 'since'],
    ['a beginning before anything kept', (now) => ({ since: new Date(now - 31 * 86_400_000).toISOString() }), 'since'],
    ['a beginning that is no moment', () => ({ since: '2026-13-45T00:00:00Z' }), 'since'],
    ['a beginning on the 30th of February', () => ({ since: '2026-02-30T00:00:00Z' }), 'since'],
    ['an end without a time zone', () => ({ since: since(), until: '2026-01-01T00:00:00' }), 'until'],
    [
      'an end before its beginning',
      (now) => ({ since: new Date(now - 1_000).toISOString(), until: new Date(now - 2_000).toISOString() }),
      'until',
    ],
    ['a state that there is not', () => ({ since: since(), states: ['pending'] }), 'states[0]'],
    ['no state at all', () => ({ since: since(), states: [] }), 'states'],
  ];
  it('is refused with invalid times or states, naming the field', async () => {
    await start();
    for (const [what, request, param] of refused) {
      const { status, body } = await begin(request(Date.now()));
      expect([status, body.error.param], what).to.deep.equal([400, param]);
    }
  });

  it('is unknown to another account', async () => {
    await start();
    const { id } = (await begin()).body;
    const { key } = await scene.gateway.keys.create({ userId: 'usr_2' });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    for (const [method, path] of [
      ['POST', 'recover'],
      ['GET', 'recoveries'],
      ['GET', `recoveries/${id}`],
      ['GET', 'stats'],
    ] as const) {
      const body = method === 'POST' ? { body: JSON.stringify({ since: since() }) } : {};
      const response = await fetch(`${scene.url}/v1/webhooks/${webhookId}/${path}`, { method, headers, ...body });
      const { error } = (await response.json()) as { error: object };
      expect(error, path).to.include({ code: 'webhook_not_found' });
    }
    const unknown = await scene.call('GET', `/v1/webhooks/${webhookId}/recoveries/rec_1`);
    expect([unknown.status, unknown.body.error.code]).to.deep.equal([404, 'recovery_not_found']);
  });
});
