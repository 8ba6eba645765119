import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import { newId } from '../../../src/ids.ts';
import { type ModelGateway, scopes } from '../../../src/index.ts';
import { startReceiver } from '../../deliveries/receiver.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { watchStandstill } from '../../support/processes/standstill.ts';
import { eventually, until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** Of every webhook here. */
const secret = `whsec_${randomBytes(24).toString('base64')}`;
const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const payment = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };
/** Milliseconds. */
const answerWithin = 5_000;
const failFastWithin = 1_000;
const goOnWithin = 10_000;

describe('while the database is unavailable', function () {
  this.timeout(90_000);
  let database: BreakableDatabase;
  let gateway: ModelGateway;
  let upstream: ScriptedUpstream;
  let app: Awaited<ReturnType<typeof listen>>;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let beside: Connection;
  let key = '';
  const logged: string[] = [];
  const clock = watchStandstill();
  /** Model calls that were answered. */
  let answered = 0;

  before(async () => {
    database = await startBreakableDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, {
      choices: [],
      data: [],
      usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 },
    });
    receiver = await startReceiver();
    const log = (message: string) => logged.push(message);
    gateway = await createGateway({
      mongo: database.uri,
      upstreams: [{ name: 'u', baseUrl: upstream.baseUrl }],
      limits: { perUser: { requestsPerMinute: 10_000 }, shared: true },
      credits: { prices: { '*': { input: 1_000, output: 1_000 } }, initialBalance: 100 },
      logger: { info: log, warn: log, error: log },
    });
    app = await listen(express().use(gateway.router));
    await gateway.start();
    ({ key } = await gateway.keys.create({ userId: 'usr_1', scopes }));
    await gateway.webhooks.create('usr_1', {
      url: receiver.url,
      events: ['payment.completed'],
      secret,
    });
    beside = await mongoose.createConnection(database.directUri).asPromise();
  });
  after(async () => {
    clock.stop();
    await app?.close();
    await gateway?.close();
    await beside?.close();
    await upstream?.close();
    await receiver?.stop();
    await database?.stop();
  });

  async function call(method: string, path: string, body?: object, bearer = key) {
    const startedAt = clock.now();
    const response = await fetch(app.url + path, {
      method,
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, code: error?.code, retryAfter, took: clock.now() - startedAt };
  }
  async function ask(bearer = key) {
    const answer = await call('POST', '/v1/chat/completions', question, bearer);
    if (answer.status === 200) answered += 1;
    return answer;
  }
  const unknownKey = () => `${key.slice(0, 10)}zzzz${key.slice(14)}`;

  /** One call of each kind that needs the database. */
  const everyCall = () => [
    call('GET', '/v1/webhooks'),
    call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'], secret }),
    call('GET', '/v1/deliveries'),
    call('GET', '/v1/events'),
    call('POST', '/v1/api_keys', { name: 'laptop', scopes: ['models'] }),
    call('GET', '/v1/usage?from=2026-01-01&to=2026-01-31'),
    call('GET', '/v1/credits'),
    call('POST', '/v1/events', { type: 'payment.completed', user_id: 'usr_1', data: payment }),
    ask(unknownKey()),
  ];

  async function untilBack(): Promise<void> {
    await until(
      async () => (await call('GET', '/v1/webhooks')).status === 200,
      goOnWithin,
      'the gateway uses it again',
    );
  }

  /** Publishes as `publish_unconfirmed` asks for: again with the same key. Returns the event's id. */
  async function publishUntilConfirmed(): Promise<string> {
    const event = { type: 'payment.completed', userId: 'usr_1', data: payment, idempotencyKey: randomUUID() } as const;
    const confirmed = await eventually(
      () =>
        gateway.publish(event).catch((error) => (error.code === 'publish_unconfirmed' ? null : Promise.reject(error))),
      (published) => published !== null,
      goOnWithin,
    );
    return String(confirmed?.id);
  }

  /** Each call once, and charged for. */
  async function isAllCounted(): Promise<boolean> {
    const counted = { ending: 'complete', counted: true };
    return (
      (await beside
        .collection('gateway_usage')
        .countDocuments(counted)
        .catch(() => 0)) === answered
    );
  }

  /** What each function of the gateway comes to, for a host that calls it: an error's code, or nothing; and how long it took. */
  async function everyFunction(): Promise<{ code: unknown; took: number }[]> {
    const { keys, webhooks, payments, credits, limits } = gateway;
    const webhook = { url: receiver.url, events: ['payment.completed'], secret };
    const paid = { userId: 'usr_2', amount: 1, currency: 'usd' };
    const calls: Promise<unknown>[] = [
      keys.create({ userId: 'usr_2' }),
      keys.list('usr_2'),
      keys.get(newId('key', Date.now())),
      keys.revoke(newId('key', Date.now())),
      webhooks.create('usr_2', webhook),
      webhooks.list('usr_2'),
      limits.reportExceeded({ userId: 'usr_2', apiKeyId: null, limit: 1 }),
      payments.completed({ ...paid, paymentId: `pay_${randomBytes(8).toString('hex')}`, creditsAdded: 1 }),
      payments.failed({ ...paid, paymentId: `pay_${randomBytes(8).toString('hex')}`, reason: 'card_declined' }),
    ];
    if (credits) {
      const reference = randomBytes(8).toString('hex');
      calls.push(credits.topUp({ userId: 'usr_2', credits: 1, reference }), credits.balance('usr_2'));
    }
    const startedAt = clock.now();
    return Promise.all(
      calls.map(async (call) => {
        const code = await call.then(
          () => undefined,
          (error) => error.code ?? error,
        );
        return { code, took: clock.now() - startedAt };
      }),
    );
  }

  beforeEach(untilBack);

  const names = [
    'it is killed',
    'it is stopped: its connections stay open and silent',
    'the network drops what is sent',
    'the network drops what it answers',
    'its connections are closed',
    'there is no primary',
  ];
  for (const name of names)
    it(`every call is answered, model calls continue, and everything recovers: ${name}`, async () => {
      const fault = database.faults.find((one) => one.name === name);
      expect((await ask()).status).to.equal(200);
      await until(isAllCounted, goOnWithin, 'what was used before is counted');
      await fault?.begin();
      try {
        const [first, functions] = await Promise.all([Promise.all(everyCall()), everyFunction()]);
        for (const { code, took } of functions) {
          expect(took).to.be.below(answerWithin);
          // a member that has just lost its office still reads
          expect(code).to.be.oneOf([undefined, 'database_unavailable', 'publish_unconfirmed']);
        }
        for (const { status, code, retryAfter, took } of first) {
          expect(took).to.be.below(answerWithin);
          // a member that has just lost its office still reads
          if (status < 500) continue;
          expect([status, retryAfter], code).to.deep.equal([503, '1']);
          expect(code).to.be.oneOf(['database_unavailable', 'publish_unconfirmed']);
        }
        const meanwhile = await ask();
        expect(meanwhile.status).to.equal(200);
        expect(meanwhile.took).to.be.below(answerWithin);
        // known by now, or soon, from the driver's own monitoring
        await until(async () => (await call('GET', '/v1/webhooks')).took < 100, goOnWithin, 'it is known');
        for (const { status, code, retryAfter, took } of await Promise.all(everyCall())) {
          expect([status, code, retryAfter]).to.deep.equal([503, 'database_unavailable', '1']);
          expect(took).to.be.below(failFastWithin);
        }
        for (const { code, took } of await everyFunction()) {
          expect(code).to.equal('database_unavailable');
          expect(took).to.be.below(failFastWithin);
        }
        const error = await gateway
          .publish({ type: 'payment.completed', userId: 'usr_1', data: payment })
          .catch((reason) => reason);
        expect(error.code).to.equal('database_unavailable');
        const quick = await Promise.all([ask(), ask(), ask(), call('GET', '/v1/models')]);
        for (const { status, took } of quick) {
          expect(status).to.equal(200);
          expect(took).to.be.below(failFastWithin);
        }
      } finally {
        await fault?.end();
      }
      const backAt = clock.now();
      await untilBack();
      const eventId = await publishUntilConfirmed();
      const arrived = () => receiver.received.some(({ body }) => body.toString().includes(eventId));
      await until(arrived, goOnWithin, 'the event arrives');
      expect(clock.now() - backAt).to.be.below(goOnWithin);
      await until(isAllCounted, goOnWithin, 'what was used meanwhile is counted');
    });

  it('refused requests leave no unhandled rejection, which would end the process', async () => {
    const uri = new URL(database.uri);
    uri.searchParams.set('serverSelectionTimeoutMS', '500');
    const quick = await createGateway({ mongo: uri.href });
    const quickApp = await listen(express().use(quick.router));
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    const fault = database.faults.find(({ name }) => name === 'it is killed');
    const list = async (bearer: string) => {
      const startedAt = clock.now();
      const { status } = await fetch(`${quickApp.url}/v1/webhooks`, { headers: { authorization: `Bearer ${bearer}` } });
      return { status, took: clock.now() - startedAt };
    };
    await fault?.begin();
    process.prependListener('unhandledRejection', note);
    try {
      await until(async () => (await list(key)).took < 100, goOnWithin, 'it is known');
      expect((await list(unknownKey())).status).to.equal(503);
      // by then a look-up that was begun all the same has failed
      await sleep(1_500);
      expect(unhandled).to.deep.equal([]);
    } finally {
      process.off('unhandledRejection', note);
      await fault?.end();
      await quickApp.close();
      await quick.close();
    }
  });
});
