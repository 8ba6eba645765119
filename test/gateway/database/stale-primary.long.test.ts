import { expect } from 'chai';
import express from 'express';
import type { ModelGateway } from '../../../src/index.ts';
import { type Cluster, startCluster } from '../../faults/cluster/cluster.ts';
import { type IsolatedPrimary, isolatePrimary } from '../../support/database/isolated-primary.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const userId = 'usr_1';
const type = 'payment.completed';
const data = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: userId };
const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly key?: string;
  readonly body?: object;
}

describe('a gateway at a primary that lacks what a majority of the members has', function () {
  this.timeout(90_000);
  const ends: (() => Promise<unknown>)[] = [];
  let cluster: Cluster;
  let isolated: IsolatedPrimary;
  let gateway: ModelGateway;
  let url: string;
  /** A key that every member has. */
  let key: string;
  /** What the primary does not have: another key, an event, its delivery, and the account's balance. */
  let missing: { readonly id: string; readonly key: string };
  let eventId: string;
  let deliveryId: string;
  /** Of another event, which no worker has taken yet. */
  let unstored: { readonly eventId: string; readonly deliveryId: string };
  let webhookId: string;

  async function ask({ method, path, body, ...given }: Ask) {
    const started = performance.now();
    const response = await fetch(`${url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${given.key ?? key}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    const retryAfter = response.headers.get('retry-after');
    return { answer: { status: response.status, code: error?.code, retryAfter }, ms: performance.now() - started };
  }

  /** As if it had been cut off from the others before all of this was written. */
  async function forget(): Promise<void> {
    const db = cluster.connection.getClient().db();
    const here = { writeConcern: { w: 1 } };
    await db.collection<{ _id: string }>('gateway_keys').deleteOne({ _id: missing.id }, here);
    await db
      .collection<{ _id: string }>('gateway_events')
      .deleteMany({ _id: { $in: [eventId, unstored.eventId] } }, here);
    await db.collection<{ _id: string }>('gateway_deliveries').deleteOne({ _id: deliveryId }, here);
    await db.collection<{ _id: string }>('gateway_credit_accounts').deleteOne({ _id: userId }, here);
  }

  before(async () => {
    cluster = await startCluster();
    ends.push(cluster.stop);
    const upstream = await ScriptedUpstream.start();
    upstream.script = json(200, {
      object: 'list',
      data: [],
      choices: [],
      usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 },
    });
    const receiver = await listen((_, res) => void res.end());
    ends.push(() => upstream.close(), receiver.close);
    gateway = await createGateway({
      mongo: cluster.uri,
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1_000_000 } } },
    });
    ends.push(gateway.close);
    const server = await listen(express().use(gateway.router));
    ends.push(server.close);
    url = server.url;

    ({ key } = await gateway.keys.create({ userId }));
    missing = await gateway.keys.create({ userId });
    ({ id: webhookId } = await gateway.webhooks.create(userId, { url: receiver.url, events: [type] }));
    await gateway.credits?.topUp({ userId, credits: 1_000, reference: 'first' });
    const publish = async () => {
      const { id } = await gateway.publish({ type, userId, data });
      const listed = await fetch(`${url}/v1/deliveries?event_id=${id}`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const { data: found } = (await listed.json()) as { data: { id: string }[] };
      return { eventId: id, deliveryId: String(found[0]?.id) };
    };
    ({ eventId, deliveryId } = await publish());
    // which stores it
    expect((await ask({ method: 'POST', path: `/deliveries/${deliveryId}/resend` })).answer.status).to.equal(200);
    unstored = await publish();

    isolated = await isolatePrimary(cluster);
    await forget();
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  const asks: Record<string, () => Ask> = {
    'its webhooks with its own key': () => ({ method: 'GET', path: '/webhooks', key: missing.key }),
    'the models with its own key': () => ({ method: 'GET', path: '/models', key: missing.key }),
    'its event': () => ({ method: 'GET', path: `/events/${eventId}` }),
    'its delivery': () => ({ method: 'GET', path: `/deliveries/${deliveryId}` }),
    'its delivery that is not stored yet': () => ({ method: 'GET', path: `/deliveries/${unstored.deliveryId}` }),
    'a resend of its delivery': () => ({ method: 'POST', path: `/deliveries/${deliveryId}/resend` }),
    'a test event': () => ({ method: 'POST', path: `/webhooks/${webhookId}/test`, body: { type } }),
    'its credits': () => ({ method: 'GET', path: '/credits' }),
    'a model call that its credits pay for': () => ({ method: 'POST', path: '/chat/completions', body: question }),
    'the revocation of a key': () => ({ method: 'DELETE', path: `/api_keys/${missing.id}` }),
  };
  const calls = [
    () => gateway.keys.authenticate(missing.key),
    () => gateway.keys.get(missing.id),
    () => gateway.keys.revoke(missing.id),
    async () => gateway.credits?.balance(userId),
  ];

  it('answers from what the primary has', async () => {
    expect((await ask({ method: 'GET', path: '/api_keys' })).answer.status).to.equal(200);
  });

  for (const [what, request] of Object.entries(asks)) {
    it(`answers 503, and not with a refusal, to an account that asks for ${what}`, async () => {
      const { answer, ms } = await ask(request());
      expect(answer).to.deep.equal({ status: 503, code: 'database_unavailable', retryAfter: '1' });
      expect(ms).to.be.below(5_000);
    });
  }

  it('throws database_unavailable to a host too, whatever it calls', async () => {
    const started = performance.now();
    for (const call of await Promise.allSettled(calls.map((call) => call()))) {
      expect(call).to.have.nested.include({ 'reason.name': 'GatewayError', 'reason.code': 'database_unavailable' });
    }
    expect(performance.now() - started).to.be.below(5_000);
  });

  it('throws database_unavailable within 5 s for a key among 600 unknown keys', async () => {
    const strange = Array.from({ length: 600 }, (_, i) => missing.key.replace(/^emg_.{6}/, `emg_${100_000 + i}`));
    const unavailable = (one: string) => gateway.keys.authenticate(one).catch((error: unknown) => error);
    const flood = Promise.all(strange.map(unavailable));
    const started = performance.now();
    expect(await unavailable(missing.key)).to.include({ code: 'database_unavailable' });
    expect(performance.now() - started).to.be.below(5_000);
    for (const outcome of await flood) expect(outcome).to.include({ code: 'database_unavailable' });
  });

  describe('when one of the others is primary', () => {
    before(async () => {
      await isolated.replace();
      await until(() => gateway.keys.authenticate(key).catch(() => null));
    });

    for (const [what, request] of Object.entries(asks)) {
      it(`answers an account that asks for ${what}`, async () => {
        expect((await ask(request())).answer.status).to.equal(200);
      });
    }

    it('still refuses an unknown key with 401', async () => {
      const strange = missing.key.replace(/^emg_.{6}/, 'emg_000000');
      expect((await ask({ method: 'GET', path: '/models', key: strange })).answer).to.include({ status: 401 });
    });
  });
});
