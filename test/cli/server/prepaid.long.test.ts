import { expect } from 'chai';
import OpenAI from 'openai';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { CommandProcess, run } from '../command.ts';

const secret = 'a-long-enough-secret';
const shipped = {
  'order.shipped': {
    schema: { type: 'object', required: ['order_id'], properties: { order_id: { type: 'string' } } },
    example: { order_id: 'ord_1' },
  },
};

describe('a prepaid service, stand-alone, with nothing but environment variables', () => {
  const settings = {
    SECRET_KEYS: newSecretKey(),
    PORT: '0',
    CREDIT_PRICES: '{"*":{"output":1000000}}',
    CREDIT_LOW_THRESHOLD: '5',
    USER_REQUESTS_PER_MINUTE: '1000',
    QUOTA_UNIT: 'requests',
    MONTHLY_QUOTA: '3',
    EVENT_TYPES: JSON.stringify(shipped),
    OPTIONS_FILE: '{"limits":{"apiKeys":2},"quotas":{"thresholds":[100]}}',
    METRICS_PORT: '0',
  };
  let env: Record<string, string>;
  let gateway: CommandProcess;
  let listener: CommandProcess;
  let baseUrl: string;
  let key: string;

  before(async () => {
    env = { ...settings, MONGODB_URI: freshUri() };
    gateway = new CommandProcess(['start'], env);
    listener = new CommandProcess(['listen', '--port', '0', '--secret', secret]);
    [, baseUrl = ''] = await gateway.until(/^Base URL: (\S+)$/m);
    [, key = ''] = await gateway.until(/^API key: (\S+)$/m);
    await gateway.until(/Try a webhook/);
  });
  after(async () => {
    await listener?.end();
    await gateway?.end();
  });

  async function call(method: string, path: string, body: object, as = key) {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    const answer: any = await response.json();
    return { status: response.status, body: answer };
  }

  /** How often a type was delivered, with a good signature. */
  const delivered = (type: string) =>
    [...listener.stdout.matchAll(new RegExp(`  ${type.replace('.', '\\.')}  evt_\\w+  signature valid`, 'g'))].length;

  it('says which features are on, and how to give an account credits', async () => {
    const [on] = await gateway.until(/^With: rate limits, quotas, prepaid credits, event types \(order\.shipped\)$/m);
    const [topUp] = await gateway.until(/ credits top-up --user usr_1 --credits 500$/m);
    expect([on, topUp]).to.have.length(2);
  });

  it('is ready, and serves its metrics on a port of their own', async () => {
    const [, metrics = ''] = await gateway.until(/^Metrics: (\S+)$/m);
    expect(await (await fetch(metrics)).text()).to.include('\ngateway_worker_live 1');
    const { origin } = new URL(baseUrl);
    expect(await (await fetch(`${origin}/readyz`)).json()).to.deep.include({ ready: true });
    expect((await fetch(`${origin}/metrics`)).status).to.equal(404);
  });

  it('lets a customer call until the credits are used up, and publishes each event once', async () => {
    const [, port] = await listener.until(/Listening on \S+:(\d+)/);
    const events = ['credits.low', 'credits.depleted', 'usage.threshold', 'api_key.created', 'order.shipped'];
    const webhook = { url: `http://127.0.0.1:${port}/`, events, secret };
    expect((await call('POST', '/webhooks', webhook)).status).to.equal(201);
    const toppedUp = await call('POST', '/credits/top_ups', { user_id: 'usr_1', credits: 12 });
    expect([toppedUp.status, toppedUp.body.credits_remaining]).to.deep.equal([201, 12]);
    const made = await call('POST', '/users/usr_1/api_keys', { name: 'customer', scopes: ['models'] });
    expect(made.status).to.equal(201);

    const client = new OpenAI({ baseURL: baseUrl, apiKey: made.body.key });
    // two credits: what it may cost is what it costs, so that nothing is left over
    const messages = [{ role: 'user' as const, content: 'Hello, gateway' }];
    const question = { model: 'demo-echo', messages, max_tokens: 2 };
    let calls = 0;
    let refusal: unknown;
    for (; calls < 100 && !refusal; calls += 1) {
      await client.chat.completions.create(question).catch((error) => {
        refusal = error;
      });
    }
    expect(calls).to.be.above(5);
    expect(refusal).to.include({ status: 402, code: 'insufficient_credits' });
    const refused = await call('POST', '/credits/top_ups', { user_id: 'usr_1', credits: 5 }, made.body.key);
    expect(refused.status).to.equal(403);

    for (const type of ['credits\\.low', 'credits\\.depleted', 'usage\\.threshold', 'api_key\\.created']) {
      await listener.until(new RegExp(`  ${type}  evt_\\w+  signature valid  answered 200\n\\{[^]*?\n\\}`));
    }
    for (const type of ['credits.low', 'credits.depleted', 'usage.threshold', 'api_key.created']) {
      expect(delivered(type), type).to.equal(1);
    }

    await call('POST', '/credits/top_ups', { user_id: 'usr_1', credits: 20 });
    expect((await client.chat.completions.create(question)).choices).to.have.length(1);
  });

  it('applies the configured limit of keys and the configured event types', async () => {
    const third = await call('POST', '/api_keys', { name: '', scopes: ['models'] });
    expect([third.status, third.body.error.code]).to.deep.equal([403, 'api_key_limit_reached']);
    const event = { type: 'order.shipped', user_id: 'usr_1', data: { order_id: 'ord_7' } };
    expect((await call('POST', '/events', event)).status).to.equal(201);
    await listener.until(/order\.shipped {2}evt_\w+ {2}signature valid/);
  });

  it('refuses to start with a mistake in an event type, and names its place', async () => {
    const broken = { 'order.shipped': { ...shipped['order.shipped'], example: {} } };
    const { code, stderr } = await run(['start'], { ...env, EVENT_TYPES: JSON.stringify(broken) });
    expect(code).to.equal(1);
    expect(stderr).to.match(/EVENT_TYPES\['order\.shipped'\]\.example: does not fit the schema/);
  });
});
