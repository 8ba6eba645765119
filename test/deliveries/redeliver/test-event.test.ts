import { expect } from 'chai';
import express from 'express';
import { createModelGateway } from '../../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { type Scene, startScene } from '../over-http.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

describe('A test event', () => {
  let scene: Scene;
  let receiver: TestReceiver;
  let webhookId: string;

  beforeEach(async () => {
    receiver = await startReceiver(200);
    scene = await startScene({ retryDelays: [0, 0] });
    webhookId = await scene.webhook(receiver.url);
  });
  afterEach(async () => {
    await scene.close();
    await receiver.stop();
  });
  const sendTest = (type = 'credits.low') => scene.call('POST', `/v1/webhooks/${webhookId}/test`, { type });

  it('reaches the receiver like a real event, with a test header, and the response has its outcome', async () => {
    const { status, body } = await sendTest();

    expect(status).to.equal(200);
    expect(body).to.include({ test: true, state: 'delivered', attempts_made: 1, max_attempts: 1, last_status: 200 });
    const [received] = receiver.received;
    expect(received?.headers).to.include({ 'x-service-test': 'true' });
    expect(received?.headers['x-service-signature']).to.match(/^sha256=/);
    expect(received?.body.toString()).to.equal(body.body);
    expect(JSON.parse(body.body).data).to.include({ user_id: 'usr_1' });
    expect(body.attempts[0].request_headers).to.include({ 'x-service-test': 'true' });
    const event = await scene.call('GET', `/v1/events/${body.event_id}`);
    expect(event.body).to.include({ test: true, state: 'delivered' });
  });

  it('takes custom data that fits its type', async () => {
    const send = (data: object) => scene.call('POST', `/v1/webhooks/${webhookId}/test`, { type: 'credits.low', data });
    const data = { user_id: 'usr_of_mine', credits_remaining: 3, threshold: 7 };
    const { body } = await send(data);
    expect(JSON.parse(body.body).data).to.deep.equal(data);
    expect(receiver.received[0]?.body.toString()).to.equal(body.body);

    const wrong = await send({ ...data, credits_remaining: 'three' });
    expect(wrong.status).to.equal(400);
    expect(wrong.body.error).to.include({ code: 'invalid_event_data', param: 'data.credits_remaining' });
    expect(receiver.received).to.have.length(1);
  });

  it('has one attempt, and its response says how it failed', async () => {
    receiver.answers((res) => res.writeHead(503).end('<script>alert(1)</script>'));
    const { status, body } = await sendTest();

    expect(status).to.equal(200);
    expect(body).to.include({ state: 'failed', attempts_made: 1, last_code: 'http_503' });
    expect(body.attempts[0].response).to.equal('<script>alert(1)</script>');
    expect(receiver.received).to.have.length(1);
  });

  it('is sent once each when many are sent at the same moment', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => sendTest()));

    expect(answers.filter(({ status }) => status !== 200)).to.deep.equal([]);
    expect(new Set(answers.map(({ body }) => body.id)).size).to.equal(10);
    expect(new Set(answers.map(({ body }) => body.state))).to.deep.equal(new Set(['delivered']));
    expect(receiver.received).to.have.length(10);
  });

  it('is refused for a type without subscription, for a paused webhook, and for another account', async () => {
    const wrong = await sendTest('payment.failed');
    expect([wrong.status, wrong.body.error.param]).to.deep.equal([400, 'type']);
    await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: false });
    const paused = await sendTest();
    expect([paused.status, paused.body.error.code]).to.deep.equal([409, 'webhook_inactive']);
    const { key } = await scene.gateway.keys.create({ userId: 'usr_2' });
    const response = await fetch(`${scene.url}/v1/webhooks/${webhookId}/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{"type":"credits.low"}',
    });
    expect(response.status).to.equal(404);
    expect(receiver.received).to.have.length(0);
  });
});

describe('A test event in a process that makes no deliveries', () => {
  it('is sent once, even if a worker elsewhere tries it too', async () => {
    const receiver = await startReceiver(200);
    const database = await freshDatabase();
    const options = { mongo: database.connection, secretKeys: [newSecretKey()], ...loopbackOptions };
    const front = await createModelGateway(options);
    const { url, close } = await listen(express().use(front.router));
    const { key } = await front.keys.create({ userId: 'usr_1' });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const webhook = await front.webhooks.create('usr_1', {
      url: receiver.url,
      events: ['credits.low'],
      secret: 'long-enough',
    });
    const send = async () => {
      const body = '{"type":"credits.low"}';
      const response = await fetch(`${url}/v1/webhooks/${webhook.id}/test`, { method: 'POST', headers, body });
      return ((await response.json()) as { state: string }).state;
    };
    try {
      expect(await send()).to.equal('delivered');
      const worker = await createModelGateway({ ...options, deliveries: { sweepInterval: 20 } });
      await worker.start();
      const states = await Promise.all(Array.from({ length: 10 }, send));
      await worker.close();
      expect(new Set(states)).to.deep.equal(new Set(['delivered']));
      expect(receiver.received).to.have.length(11);
    } finally {
      await close();
      await front.close();
      await database.drop();
      await receiver.stop();
    }
  });
});

describe('A test event to a receiver that hangs', () => {
  it('is answered with the time-out of its attempt', async () => {
    const receiver = await startReceiver(hang);
    const scene = await startScene({ deliveries: { attemptTimeout: 1_000 } });
    try {
      const id = await scene.webhook(receiver.url);
      const { status, body } = await scene.call('POST', `/v1/webhooks/${id}/test`, { type: 'credits.low' });
      expect(status).to.equal(200);
      expect(body).to.include({ state: 'failed', last_code: 'timeout', last_status: null });
    } finally {
      await scene.close();
      await receiver.stop();
    }
  });
});
