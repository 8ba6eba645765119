import { createHmac } from 'node:crypto';
import { expect } from 'chai';
import OpenAI from 'openai';
import { hang, type Received, reset, startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { events, inTurn, json, ScriptedUpstream } from '../support/upstream.ts';

const secret = 'a secret with ünïcode';
/** Milliseconds. */
const attemptTimeout = 3_000;
const payment = { payment_id: 'pay_1', amount: 20.5, currency: 'usd', credits_added: 2000, user_id: 'usr_1' };

/** The receiver's own arithmetic, over the raw bytes that came. */
function expectSigned({ headers, body }: Received): void {
  const hex = createHmac('sha256', Buffer.from(secret)).update(body).digest('hex');
  expect(headers['x-service-signature']).to.equal(`sha256=${hex}`);
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const base64 = createHmac('sha256', Buffer.from(secret)).update(signed).digest('base64');
  expect(headers['webhook-signature']).to.equal(`v1,${base64}`);
}

describe('a gateway with an upstream and a webhook', () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let receiver: TestReceiver;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    live = await startGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, apiKey: 'upstream-key' }],
      retryDelays: [30, 40, 50, 60, 70],
      deliveries: { attemptTimeout },
    });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });
  afterEach(() => receiver?.stop());

  async function register(...script: Parameters<typeof startReceiver>): Promise<string> {
    receiver = await startReceiver(...script);
    const created = await live.call('POST', '/v1/webhooks', {
      url: receiver.url,
      events: ['payment.completed'],
      secret,
    });
    expect(created.status).to.equal(201);
    return created.body.id;
  }
  const publish = () => live.gateway.publish({ type: 'payment.completed', userId: 'usr_1', data: payment });

  it('answers an OpenAI client that knows only a base URL and a key, streamed or not', async () => {
    const openai = new OpenAI({ baseURL: `${live.url}/v1`, apiKey: live.key, maxRetries: 0 });
    const base = { id: 'c1', created: 1, model: 'm' };
    upstream.script = inTurn(
      json(200, {
        ...base,
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      }),
      events(
        ['H', 'i'].map((content) => ({
          ...base,
          object: 'chat.completion.chunk',
          choices: [{ index: 0, delta: { content }, finish_reason: null }],
        })),
      ),
    );
    const messages = [{ role: 'user' as const, content: 'Hello' }];
    const plain = await openai.chat.completions.create({ model: 'm', messages });
    expect(plain.choices[0]?.message.content).to.equal('Hi');
    let text = '';
    for await (const chunk of await openai.chat.completions.create({ model: 'm', messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
    }
    expect(text).to.equal('Hi');
    expect(upstream.requests.map(({ headers }) => headers.authorization)).to.deep.equal(
      Array(2).fill('Bearer upstream-key'),
    );
  });

  it('delivers an event signed, at once, and not again after a 2xx', async () => {
    const id = await register(200);
    const accepted = performance.now();
    const event = await publish();
    const [delivery] = (await receiver.count(1)) as [Received];
    expect(delivery.at - accepted).to.be.below(5_000);
    expectSigned(delivery);
    expect(delivery.method).to.equal('POST');
    expect(delivery.headers['content-type']).to.equal('application/json');
    expect(delivery.headers['user-agent']).to.match(/^express-model-gateway\/\d/);
    const { id: eventId, created } = event;
    expect(JSON.parse(delivery.body.toString())).to.deep.equal({
      id: eventId,
      type: 'payment.completed',
      created,
      data: payment,
    });
    // shows that nothing more happens
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(receiver.received).to.have.length(1);
    await live.call('DELETE', `/v1/webhooks/${id}`);
  });

  it('retries after two 500s, a hang and a reset until a 200, with the same id and body', async () => {
    const id = await register(500, 500, hang, reset, 200);
    const published = performance.now();
    const event = await publish();
    const attempts = await receiver.count(5);
    attempts.forEach(expectSigned);
    expect(new Set(attempts.map(({ body }) => body.toString('hex'))).size).to.equal(1);
    expect(attempts.map(({ headers }) => headers['webhook-id'])).to.deep.equal(Array(5).fill(event.id));
    const gaps = attempts.slice(1).map(({ at }, i) => at - (attempts[i] as Received).at);
    [30, 40, 50, 60].forEach((least, i) => {
      expect(gaps[i], `wait before attempt ${i + 2}`).to.be.at.least(least - 2);
    });
    // not from its arrival: a busy receiver may have read it late
    const fourth = attempts[3] as Received;
    expect(fourth.at - published, 'all up to the hang').to.be.at.least(30 + 40 + attemptTimeout + 50 - 6);
    await live.call('DELETE', `/v1/webhooks/${id}`);
  });

  it('gives up after six failures: a seventh attempt is never made', async () => {
    const id = await register(503);
    await publish();
    const attempts = await receiver.count(6);
    attempts.forEach(expectSigned);
    // shows that nothing more happens
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(receiver.received).to.have.length(6);
    await live.call('DELETE', `/v1/webhooks/${id}`);
  });

  it('stops delivering while a webhook is paused', async () => {
    const id = await register(200);
    await live.call('PATCH', `/v1/webhooks/${id}`, { active: false });
    await publish();
    await live.call('PATCH', `/v1/webhooks/${id}`, { active: true });
    const after = await publish();
    const [first] = await receiver.count(1);
    expect(first?.headers['webhook-id']).to.equal(after.id);
    await live.call('DELETE', `/v1/webhooks/${id}`);
  });
});
