import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import OpenAI from 'openai';
import { type LiveGateway, newSecretKey, startGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually, until } from '../support/until.ts';
import { chunks, json, ScriptedUpstream } from '../support/upstream.ts';

/** A call costs 2 credits. */
const answer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const credits = {
  prices: { '*': { output: 2_000_000 }, free: {} },
  expectedOutputTokens: 1,
  lowThreshold: 5,
};
const question = { model: 'm', messages: [{ role: 'user' as const, content: 'Well?' }] };

describe('an account with prepaid credits', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let other: LiveGateway;

  before(async () => {
    database = await freshDatabase();
    ({ connection } = database);
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, answer);
    const options = {
      mongo: database.uri,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits,
    };
    live = await startGateway(options);
    other = await startGateway(options);
  });
  after(async () => {
    await live.close();
    await other.close();
    await upstream.close();
    await database.drop();
  });

  const clientOf = (apiKey: string, url = live.url) => new OpenAI({ apiKey, baseURL: `${url}/v1` });
  const ledger = (userId: string) => connection.collection('gateway_credit_ledger').find({ userId }).toArray();

  it('calls until they are used up, gets each event once, and is then refused before the upstream is called', async () => {
    const received: { type: string; data: object }[] = [];
    const receiver = await listen(async (req, res) => {
      let text = '';
      for await (const chunk of req) text += chunk;
      received.push(JSON.parse(text));
      res.end();
    });
    const events = ['credits.low', 'credits.depleted', 'payment.completed'];
    await live.call('POST', '/v1/webhooks', { url: receiver.url, events, secret: 'long-enough' });
    const payment = { paymentId: 'pay_1', userId: 'usr_1', amount: 10, currency: 'usd', creditsAdded: 10 };
    await live.gateway.payments.completed(payment);
    await other.gateway.payments.completed(payment);
    expect((await live.call('GET', '/v1/credits')).body).to.deep.equal({ credits_remaining: 10, low_threshold: 5 });

    const client = clientOf(live.key);
    let refusal: unknown;
    for (let i = 0; i < 30 && !refusal; i += 1) {
      await client.chat.completions.create(question).catch((error) => {
        refusal = error;
      });
      // the payment, and what each call was charged
      const booked = 1 + upstream.requests.length;
      await until(async () => (await ledger('usr_1')).length === booked);
    }
    expect(refusal).to.be.instanceOf(OpenAI.APIError);
    expect(refusal).to.include({ status: 402, code: 'insufficient_credits', type: 'insufficient_quota' });
    expect((refusal as InstanceType<typeof OpenAI.APIError>).headers?.get('x-should-retry')).to.equal('false');
    const calls = upstream.requests.length;
    await client.chat.completions.create(question).catch(() => {});
    expect(upstream.requests).to.have.length(calls);
    expect((await client.chat.completions.create({ ...question, model: 'free' })).choices).to.have.length(1);

    await eventually(
      async () => received.length,
      (count) => count >= 3,
    );
    // shows that nothing more happens
    await sleep(100);
    expect(received.map(({ type }) => type).toSorted()).to.deep.equal([
      'credits.depleted',
      'credits.low',
      'payment.completed',
    ]);
    const low = received.find(({ type }) => type === 'credits.low')?.data;
    expect(low).to.include({ user_id: 'usr_1', threshold: 5 });
    const entries = await eventually(
      () => ledger('usr_1'),
      (found) => found.length === calls + 2,
    );
    expect(entries.filter(({ kind }) => kind === 'usage')).to.have.length(calls + 1);
    const remaining = (await live.call('GET', '/v1/credits')).body.credits_remaining;
    expect(remaining).to.equal(10 - 2 * calls);
    expect(remaining).to.equal(0);

    await live.gateway.credits?.topUp({ userId: 'usr_1', credits: 20, reference: 'gift' });
    expect((await client.chat.completions.create(question)).choices).to.have.length(1);
    await receiver.close();
  });

  it('is charged once for each call to two processes at the same time, and never overdraws', async () => {
    await live.gateway.credits?.topUp({ userId: 'usr_2', credits: 60, reference: 'usr_2' });
    const { key } = await live.gateway.keys.create({ userId: 'usr_2' });
    const before = upstream.requests.length;
    async function spend(url: string): Promise<void> {
      const client = clientOf(key, url);
      // a refused client waits before it tries again
      for (let i = 0; i < 25; i += 1) await client.chat.completions.create(question).catch(() => sleep(10));
    }
    await Promise.all([live.url, other.url, live.url, other.url].map(spend));
    const calls = upstream.requests.length - before;
    const entries = await eventually(
      () => ledger('usr_2'),
      (found) => found.length === calls + 1,
    );
    expect(entries).to.have.length(calls + 1);
    const sum = entries.reduce((total, { amount }) => total + amount, 0) / 1_000_000;
    expect(sum).to.equal(60 - 2 * calls);
    const { creditsRemaining } = (await live.gateway.credits?.balance('usr_2')) ?? {};
    expect(creditsRemaining).to.equal(sum);
    expect(sum).to.equal(0);
    const usage = await connection.collection('gateway_usage').countDocuments({ userId: 'usr_2', counted: true });
    expect(usage).to.equal(calls);
  });

  it('pays nothing for an answer of 200 that is an error, keeps what was reserved, and has no request counted', async () => {
    const userId = 'usr_failed';
    await live.gateway.credits?.topUp({ userId, credits: 4, reference: userId });
    const { key } = await live.gateway.keys.create({ userId });
    const client = clientOf(key);
    const ended = () => connection.collection('gateway_usage').find({ userId, counted: true }).toArray();
    const stream = { ...question, stream: true as const };
    upstream.script = json(200, { error: { message: 'No endpoints found', code: 429 } });
    // each reserves all 4 credits
    await client.chat.completions.create({ ...question, max_tokens: 2 });
    upstream.script = chunks([
      'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',
      'data: {"error":{"message":"overloaded"}}\n\n',
    ]);
    await client.chat.completions
      .create({ ...stream, max_tokens: 2 })
      .then(async (parts) => {
        for await (const part of parts) expect(part.choices).to.have.length(1);
      }, undefined)
      .catch((error) => expect(error.message).to.include('overloaded'));
    const records = await eventually(ended, (found) => found.length === 2);
    for (const record of records) {
      expect(record).to.include({ ending: 'upstream_failed', inputTokens: 0, outputTokens: 0, estimated: false });
    }
    expect((await live.gateway.credits?.balance(userId))?.creditsRemaining).to.equal(4);
    expect((await live.gateway.usage?.report(userId, {}))?.lines[0]).to.include({ requests: 0, inputTokens: 0 });
    upstream.script = json(200, answer);
    await client.chat.completions.create({ ...question, max_tokens: 2 });
    await eventually(ended, (found) => found.length === 3);
    expect((await live.gateway.credits?.balance(userId))?.creditsRemaining).to.equal(2);
    expect((await live.gateway.usage?.report(userId, {}))?.lines[0]).to.include({ requests: 1 });
  });

  it('gets 404 for its credits from a gateway without the option credits', async () => {
    const without = await startGateway();
    const { status, body } = await without.call('GET', '/v1/credits');
    expect([status, body.error.code]).to.deep.equal([404, 'not_found']);
    expect(without.gateway.credits).to.equal(undefined);
    await without.close();
  });
});
