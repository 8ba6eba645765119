import { expect } from 'chai';
import type { DisabledWebhook, ModelGatewayOptions } from '../../../src/index.ts';
import { type Scene, startScene } from '../../deliveries/over-http.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { silentLogger } from '../../support/logger.ts';
import { eventually } from '../../support/until.ts';

const day = 86_400_000;

interface StoredHealth {
  _id: string;
  failures?: number;
  failingSince?: Date;
}

describe('The health of a webhook', () => {
  let scene: Scene;
  let receiver: TestReceiver;
  let webhookId: string;

  async function start(options: Partial<ModelGatewayOptions> = {}) {
    scene = await startScene({ retryDelays: [], ...options });
    webhookId = await scene.webhook(receiver.url);
  }
  const webhook = async () => (await scene.call('GET', `/v1/webhooks/${webhookId}`)).body;
  const stats = async () => (await scene.call('GET', `/v1/webhooks/${webhookId}/stats`)).body;
  const send = () => scene.call('POST', `/v1/webhooks/${webhookId}/test`, { type: 'credits.low' });
  const healths = () => scene.connection.collection<StoredHealth>('gateway_health');

  beforeEach(async () => {
    receiver = await startReceiver(200);
  });
  afterEach(async () => {
    await scene.close();
    await receiver.stop();
  });

  it('follows from its attempts, and its statistics count them by the hour', async () => {
    await start();
    expect((await webhook()).health).to.deep.equal({
      state: 'idle',
      failing_since: null,
      last_success_at: null,
      last_failure: null,
    });
    receiver.answers(200, 200, 200, 503);
    const answers = [await send(), await send(), await send(), await send()];
    // counts and the last failure are written side by side
    const counted = await eventually(stats, (found) => found.attempts === 4 && found.last_failure !== null);

    expect(counted).to.include({ succeeded: 3, failed: 1, success_rate: 0.75, webhook_id: webhookId });
    const failure = { delivery_id: answers[3]?.body.id, status: 503, code: 'http_503' };
    expect(counted.last_failure).to.include(failure);
    expect(counted.p95_ms).to.be.at.least(counted.p50_ms);
    expect(counted.hours).to.have.length(168);
    const last = counted.hours.at(-1);
    const before = counted.hours.at(-2);
    expect(last.succeeded + last.failed + before.succeeded + before.failed).to.equal(4);
    expect(counted.hours[0]).to.deep.include({ succeeded: 0, failed: 0, p50_ms: null, start: counted.since });
    const { health } = await webhook();
    expect(health).to.include({ state: 'healthy' });
    expect(health.last_failure).to.deep.equal(counted.last_failure);
    expect(Date.parse(health.failing_since)).to.be.above(Date.parse(health.last_success_at));
  });

  it('is failing after three failures over minutes, and healthy again after a success', async () => {
    await start();
    receiver.answers(500);
    await send();
    await eventually(
      async () => (await stats()).failed,
      (failed) => failed === 1,
    );
    const failingSince = new Date(Date.now() - 600_000);
    await healths().updateOne({ _id: webhookId }, { $set: { failingSince, failures: 2 } });
    expect((await webhook()).health.state).to.equal('healthy');
    await send();
    const failing = await eventually(webhook, ({ health }) => health.state === 'failing');
    expect(failing).to.include({ active: true, disabled: null });
    expect(failing.health.failing_since).to.equal(failingSince.toISOString());
    receiver.answers(200);
    await send();
    const healthy = await eventually(webhook, ({ health }) => health.state === 'healthy');
    expect(healthy.health.failing_since).to.equal(null);
    expect((await healths().findOne({ _id: webhookId }))?.failures).to.equal(0);
  });

  /** As a webhook is that has failed everything for so many days. */
  async function failedFor(days: number) {
    receiver.answers(500);
    await send();
    await eventually(
      async () => (await stats()).failed,
      (failed) => failed >= 1,
    );
    const failingSince = new Date(Date.now() - days * day);
    await healths().updateOne({ _id: webhookId }, { $set: { failingSince, failures: 20 } });
  }

  it('does not disable a webhook, unless the host has asked for that', async () => {
    await start();
    await failedFor(300);
    receiver.answers(410);
    await send();
    await eventually(
      async () => (await stats()).failed,
      (failed) => failed === 2,
    );
    expect(await webhook()).to.include({ active: true, disabled: null });
  });

  it('disables a webhook after days of failures alone, tells the host once, and starts anew when the owner activates it', async () => {
    const asked: DisabledWebhook[] = [];
    await start({
      deliveries: {
        disableAfterDays: 3,
        onDisable: (one) => {
          asked.push(one);
        },
      },
    });
    await failedFor(2);
    await send();
    await eventually(
      async () => (await stats()).failed,
      (failed) => failed === 2,
    );
    expect((await webhook()).active).to.equal(true);
    await failedFor(4);
    await send();
    const disabled = await eventually(webhook, ({ active }) => !active);

    expect(disabled.disabled.reason).to.equal('failing');
    expect(Date.parse(disabled.disabled.at)).to.be.closeTo(Date.now(), 30_000);
    expect(asked).to.have.length(1);
    expect(asked[0]).to.deep.include({ id: webhookId, userId: 'usr_1', url: receiver.url, reason: 'failing' });
    const { id } = await scene.gateway.publish({
      type: 'credits.low',
      userId: 'usr_1',
      data: { user_id: 'usr_1', credits_remaining: 1, threshold: 2 },
    });
    expect((await scene.call('GET', `/v1/events/${id}`)).body).to.include({ skipped: 1, state: 'none' });

    await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: true });
    expect(await webhook()).to.include({ active: true, disabled: null });
    const { failed } = await stats();
    await send();
    await eventually(
      async () => (await stats()).failed,
      (now) => now > failed,
    );
    expect(await webhook()).to.include({ active: true, disabled: null });
    expect(asked).to.have.length(1);
  });

  it('disables a webhook that answers 410, also when the database refuses the first write', async () => {
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (message: string) => warnings.push(message) };
    await start({ deliveries: { disableOnGone: true }, logger });
    receiver.answers(410);
    const webhooks = scene.connection.collection('gateway_webhooks');
    // every write that does not meet this is refused, and so is the first try to disable it
    const validator = { active: true };
    await scene.connection.getClient().db(scene.connection.name).command({ collMod: 'gateway_webhooks', validator });
    await send();
    await eventually(
      async () => warnings,
      (all) => all.includes('failing webhooks will be looked at again'),
    );
    expect(await webhooks.findOne({})).to.include({ active: true });
    await scene.connection
      .getClient()
      .db(scene.connection.name)
      .command({ collMod: 'gateway_webhooks', validator: {} });
    const disabled = await eventually(webhook, ({ active }) => !active);

    expect(disabled.disabled.reason).to.equal('gone');
  });

  it('leaves a webhook active when the host prevents it, and does not ask again at the next failures', async () => {
    let asked = 0;
    await start({
      deliveries: {
        disableAfterDays: 1,
        async onDisable() {
          asked += 1;
          return false;
        },
      },
    });
    await failedFor(2);
    for (let failed = 2; failed <= 4; failed += 1) {
      await send();
      await eventually(
        async () => (await stats()).failed,
        (now) => now === failed,
      );
    }
    expect(await webhook()).to.include({ active: true, disabled: null });
    expect(asked).to.equal(1);
  });

  it('is written to the database when the gateway closes', async () => {
    await start();
    await send();
    await scene.gateway.close();
    const [tally] = await scene.connection.collection('gateway_tallies').find().toArray();
    expect(tally).to.include({ succeeded: 1, failed: 0 });
  });
});
