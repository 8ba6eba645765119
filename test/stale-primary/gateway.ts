import { expect } from 'chai';
import express from 'express';
import { createGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { eventually, until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import type { Row, Scene } from './harness.ts';

const userId = 'usr_1';
const type = 'payment.completed';
const data = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: userId };
const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
/** How soon it says that it is unavailable. Milliseconds. */
const within = 5_000;

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly key?: string;
  readonly body?: object;
}

/** A gateway with an account. */
async function openGateway({ uri, connection, defer }: Scene) {
  const upstream = await ScriptedUpstream.start();
  upstream.script = json(200, {
    object: 'list',
    data: [],
    choices: [{}],
    usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 },
  });
  const receiver = await listen((_, res) => void res.end());
  defer(() => upstream.close());
  defer(receiver.close);
  const gateway = await createGateway({
    mongo: uri,
    upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
    credits: { prices: { '*': { input: 1_000_000 } } },
  });
  defer(gateway.close);
  const server = await listen(express().use(gateway.router));
  defer(server.close);

  /** A key that every member has. */
  const { key } = await gateway.keys.create({ userId });
  async function fetched({ method, path, body, ...given }: Ask) {
    const response = await fetch(`${server.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${given.key ?? key}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each row knows the shape it asks for
    const answered = (await response.json()) as any;
    return { answered, status: response.status, retryAfter: response.headers.get('retry-after') };
  }
  async function ask(what: Ask) {
    const started = performance.now();
    const { answered, status, retryAfter } = await fetched(what);
    return { answer: { status, code: answered.error?.code, retryAfter }, ms: performance.now() - started };
  }
  async function publish() {
    const { id } = await gateway.publish({ type, userId, data });
    const { answered } = await fetched({ method: 'GET', path: `/deliveries?event_id=${id}` });
    return { eventId: id, deliveryId: String(answered.data[0]?.id) };
  }

  const missing = await gateway.keys.create({ userId });
  const revocable = await gateway.keys.create({ userId });
  const { id: webhookId } = await gateway.webhooks.create(userId, { url: receiver.url, events: [type] });
  await gateway.credits?.topUp({ userId, credits: 1_000, reference: 'first' });
  const { eventId, deliveryId } = await publish();
  // which stores it
  expect((await ask({ method: 'POST', path: `/deliveries/${deliveryId}/resend` })).answer.status).to.equal(200);
  const unstored = await publish();

  return {
    gateway,
    ask,
    key,
    webhookId,
    eventId,
    deliveryId,
    /** The keys that the primary forgets. */
    missing,
    revocable,
    /** Of another event, which no worker has taken yet. */
    unstored,
    /** As if the primary had been cut off from the others before it got a key, an event, its delivery, and the account's balance. */
    async forget(): Promise<void> {
      const db = connection.getClient().db(connection.name);
      const ids = {
        gateway_keys: [missing.id, revocable.id],
        gateway_events: [eventId, unstored.eventId],
        gateway_deliveries: [deliveryId],
        gateway_credit_accounts: [userId],
      };
      for (const [name, _ids] of Object.entries(ids)) {
        const collection = db.collection<{ _id: string }>(name);
        await collection.deleteMany({ _id: { $in: _ids } }, { writeConcern: { w: 1 } });
      }
    },
    /** Until the gateway has found the new primary. */
    back: () => until(() => gateway.keys.authenticate(key).catch(() => null)),
  };
}

type Account = Awaited<ReturnType<typeof openGateway>>;

const row = (given: Pick<Row, 'subject' | 'holds' | 'show'>): Row => ({
  fault: 'a primary whose writes reach no other member',
  written: 'which a majority has',
  ...given,
});

/** @param isOver whether the new primary's answer is the last one: until then it is asked again. @default any is */
const asked = (subject: string, request: (account: Account) => Ask, isOver = (_code?: string) => true): Row =>
  row({
    subject,
    holds: 'answered with 503 and not with a refusal, and with 200 by the new primary',
    async show(stage) {
      const account = await stage.scene(openGateway);
      const { ask, forget, back } = account;
      await stage.fault();
      await forget();
      const { answer, ms } = await ask(request(account));
      expect(answer).to.deep.equal({ status: 503, code: 'database_unavailable', retryAfter: '1' });
      expect(ms).to.be.below(within);
      await stage.recovered();
      await back();
      const last = await eventually(
        () => ask(request(account)),
        (current) => isOver(current.answer.code),
      );
      expect(last.answer).to.include({ status: 200 });
    },
  });

const get = (path: string) => ({ method: 'GET', path });

export const rows: readonly Row[] = [
  row({
    subject: "an account's keys",
    holds: 'answered from what the primary has',
    async show(stage) {
      const { ask, forget } = await stage.scene(openGateway);
      await stage.fault();
      await forget();
      expect((await ask(get('/api_keys'))).answer.status).to.equal(200);
    },
  }),

  asked('the webhooks of a key', ({ missing }) => ({ ...get('/webhooks'), key: missing.key })),
  asked('the models of a key', ({ missing }) => ({ ...get('/models'), key: missing.key })),
  asked('an event', ({ eventId }) => get(`/events/${eventId}`)),
  asked('a delivery', ({ deliveryId }) => get(`/deliveries/${deliveryId}`)),
  asked('a delivery that is not stored yet', ({ unstored }) => get(`/deliveries/${unstored.deliveryId}`)),
  asked(
    'a resend of a delivery',
    ({ deliveryId }) => ({ method: 'POST', path: `/deliveries/${deliveryId}/resend` }),
    // the resend that was answered with 503 may have reached the new primary, and be about to end
    (code) => code !== 'attempt_in_flight',
  ),
  asked('a test event', ({ webhookId }) => ({ method: 'POST', path: `/webhooks/${webhookId}/test`, body: { type } })),
  asked('credits', () => get('/credits')),
  asked('a model call that credits pay for', () => ({ method: 'POST', path: '/chat/completions', body: question })),
  // a key of its own: others are used at the same time
  asked('the revocation of a key', ({ revocable }) => ({ method: 'DELETE', path: `/api_keys/${revocable.id}` })),

  row({
    subject: 'a key and credits that a host asks for',
    holds: 'it throws database_unavailable, whatever is called',
    async show(stage) {
      const { gateway, missing, forget } = await stage.scene(openGateway);
      await stage.fault();
      await forget();
      const started = performance.now();
      const calls = await Promise.allSettled([
        gateway.keys.authenticate(missing.key),
        gateway.keys.get(missing.id),
        gateway.keys.revoke(missing.id),
        gateway.credits?.balance(userId),
      ]);
      for (const call of calls) {
        expect(call).to.have.nested.include({ 'reason.name': 'GatewayError', 'reason.code': 'database_unavailable' });
      }
      expect(performance.now() - started).to.be.below(within);
    },
  }),

  row({
    subject: 'a key among 600 unknown keys',
    holds: 'all are unavailable for the moment; the new primary has an unknown one refused with 401',
    async show(stage) {
      const { gateway, ask, missing, forget, back } = await stage.scene(openGateway);
      await stage.fault();
      await forget();
      const strange = (i: number) => missing.key.replace(/^emg_.{6}/, `emg_${i}`);
      const unavailable = (one: string) => gateway.keys.authenticate(one).catch((error: unknown) => error);
      const flood = Promise.all(Array.from({ length: 600 }, (_, i) => unavailable(strange(100_000 + i))));
      const started = performance.now();
      expect(await unavailable(missing.key)).to.include({ code: 'database_unavailable' });
      expect(performance.now() - started).to.be.below(within);
      for (const outcome of await flood) expect(outcome).to.include({ code: 'database_unavailable' });
      await stage.recovered();
      await back();
      expect((await ask({ ...get('/models'), key: strange(100_000) })).answer).to.include({ status: 401 });
    },
  }),
];
