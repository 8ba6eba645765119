import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import { scopes } from '../../../src/index.ts';
import { startReceiver } from '../../deliveries/receiver.ts';
import { payment } from '../../events/harness.ts';
import { createGateway, newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { recordingLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

/** What a host does to its mongoose, or to one connection. */
export interface HostSetting {
  readonly name: string;
  /** Before the host connects. @returns what takes it back */
  readonly prepare?: () => () => void;
  readonly connection?: mongoose.ConnectOptions;
  /** Once it has connected. @returns the connection that the gateway gets. @default the same */
  readonly connected?: (connection: Connection) => Connection;
}

const usage = { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 };

/** Answers chats, and responses that it keeps. */
const answer: Script = (res, request) => {
  const message = { role: 'assistant', content: 'Hello' };
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  const chat = { id: 'chatcmpl-1', object: 'chat.completion', choices, usage };
  const response = { id: 'resp_kept', object: 'response', status: 'completed', model: 'm', output: [], usage };
  return json(200, request.path.includes('/responses') ? response : chat)(res, request);
};

/** The call of a process that died long ago. */
const orphan = {
  _id: 'use_orphan',
  requestId: 'req_1',
  userId: 'usr_dead',
  keyId: null,
  endpoint: 'chat',
  model: 'm',
  upstream: 'one',
  inputTokens: 1,
  cachedInputTokens: 0,
  outputTokens: 0,
  images: 0,
  estimated: false,
  ending: null,
  startedAt: new Date(0),
  durationMs: 0,
  firstByteMs: 0,
};

/** What the gateway may say: how it is configured, not that something has failed. */
const expected = /^(webhooks may reach networks|mongo: your connection notices late)/;

/** What is done at the end, the last first. */
type Defer = (undo: () => unknown) => void;

/** A host with these settings, and a gateway on its connection. */
async function startHost({ prepare, connection: options, connected }: HostSetting, defer: Defer) {
  const uri = freshUri();
  const plain = await new mongoose.Mongoose().createConnection(uri).asPromise();
  defer(() => plain.close());
  const undo = prepare?.();
  if (undo) defer(undo);
  const opened = await mongoose.createConnection(uri, options).asPromise();
  defer(() => opened.close());
  const connection = connected?.(opened) ?? opened;
  /** Without settings, to look at what is stored. */
  const beside = plain.useDb(connection.name);
  defer(() => beside.dropDatabase());
  await beside.collection<{ _id: string }>('gateway_usage').insertOne(orphan);
  const upstream = await ScriptedUpstream.start();
  defer(() => upstream.close());
  upstream.script = answer;
  const receiver = await startReceiver(500, 200);
  defer(() => receiver.stop());
  const logger = recordingLogger();
  const gateway = await createGateway({
    mongo: connection,
    logger,
    secretKeys: [newSecretKey()],
    upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
    retryDelays: [50],
    credits: { prices: { '*': { output: 1 } }, initialBalance: 1_000 },
    quotas: { perUser: { unit: 'tokens', monthly: 1_000_000 } },
    limits: {
      perKey: ({ userId }) => ({ requestsPerMinute: userId === 'usr_flood' ? 2 : 1_000 }),
      shared: true,
    },
    fixed: { syncInterval: 20, limitEventWindow: 300 },
  });
  defer(() => gateway.close());
  const server = await listen(express().use(gateway.router));
  defer(() => server.close());
  await gateway.start();
  const { key: own } = await gateway.keys.create({ userId: 'usr_1', scopes });

  // biome-ignore lint/suspicious/noExplicitAny: each step knows the shape it asks for
  async function call(method: string, path: string, body?: unknown, key = own): Promise<any> {
    const response = await fetch(`${server.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { ...((await response.json()) as object), status: response.status };
  }
  return { gateway, connection, beside, receiver, logger, call };
}

type Host = Awaited<ReturnType<typeof startHost>>;

const ask = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };

/** Keys: created, found, changed, listed by pages, revoked. */
async function useKeys({ gateway, call }: Host): Promise<void> {
  const budgets = [{ period: 'day' as const, requests: 500 }];
  const other = await gateway.keys.create({ userId: 'usr_1', name: 'other', scopes, budgets });
  expect((await gateway.keys.authenticate(other.key))?.keyId).to.equal(other.id);
  expect((await call('POST', '/chat/completions', ask, other.key)).status).to.equal(200);
  const changed = await gateway.keys.update(other.id, { budgets: [{ period: 'month', tokens: 9 }] });
  expect(changed?.budgets).to.have.length(1);
  const { keys, hasMore } = await gateway.keys.list('usr_1', { limit: 1 });
  expect(hasMore).to.equal(true);
  const next = await gateway.keys.list('usr_1', { after: keys[0]?.id as string });
  expect(next.keys.map(({ id, name }) => ({ id, name }))).to.deep.equal([{ id: other.id, name: 'other' }]);
  expect(await gateway.keys.revoke(other.id)).to.equal(true);
  expect(await gateway.keys.revoke(other.id)).to.equal(false);
  expect((await call('POST', '/chat/completions', ask, other.key)).status).to.equal(401);
}

/** Webhooks: created, listed, changed, rotated, deleted. Resolves to one that stays. */
async function useWebhooks({ gateway, call, receiver }: Host): Promise<string> {
  const input = {
    url: receiver.url,
    events: ['payment.completed'],
    metadata: { a: 'b' },
    headers: { 'x-own': 'value' },
  };
  const { id } = await call('POST', '/webhooks', input);
  const second = await gateway.webhooks.create('usr_1', { url: receiver.url, events: ['credits.low'] });
  expect((await call('GET', `/webhooks?limit=1&after=${id}`)).data).to.have.length(1);
  expect((await call('PATCH', `/webhooks/${second.id}`, { active: false })).active).to.equal(false);
  expect((await call('POST', `/webhooks/${second.id}/rotate_secret`, {})).status).to.equal(200);
  expect((await call('DELETE', `/webhooks/${second.id}`)).deleted).to.equal(true);
  expect((await call('GET', `/webhooks/${second.id}`)).status).to.equal(404);
  return id;
}

/** Events: published alone, again, and in transactions of the gateway's and the host's; delivered at the second try. */
async function useEvents({ gateway, connection, call, receiver }: Host): Promise<void> {
  const options = { idempotencyKey: 'once' };
  const { id } = await gateway.publish(payment, options);
  expect((await gateway.publish(payment, options)).id).to.equal(id);
  await until(async () => (await call('GET', `/deliveries?event_id=${id}`)).data[0]?.state === 'delivered');
  const { data } = await call('GET', `/deliveries?event_id=${id}`);
  expect((await call('GET', `/deliveries/${data[0].id}`)).attempts).to.have.length(2);
  const { timeoutMS = 0 } = connection.getClient().options;
  await gateway.transaction(async (session) => {
    // longer than an operation may take there: a transaction takes as long as it takes
    await sleep(2 * timeoutMS);
    await gateway.publish(payment, { session });
  });
  const session = await connection.startSession();
  await session.withTransaction(() => gateway.publish(payment, { session }), {
    writeConcern: { w: 'majority' },
    readPreference: 'primary',
  });
  await session.endSession();
  await receiver.count(4);
  expect((await gateway.events.list('usr_1')).events).to.have.length.at.least(3);
}

/** Money: payments, top-ups, what calls cost, what the account may use. */
async function useCredits({ gateway, call }: Host): Promise<void> {
  const paid = { userId: 'usr_1', paymentId: 'pay_9', amount: 1, currency: 'usd', creditsAdded: 10 };
  const first = await gateway.payments.completed(paid);
  expect((await gateway.payments.completed(paid)).id).to.equal(first.id);
  await gateway.credits?.topUp({ userId: 'usr_1', credits: 5, reference: 'r' });
  await gateway.budgets?.set('usr_1', [{ period: 'day', tokens: 100_000 }]);
  expect((await call('POST', '/chat/completions', ask)).status).to.equal(200);
  await until(async () => (await call('GET', '/usage')).data.length > 0, undefined, 'the call is counted');
  await until(
    async () => (await gateway.budgets?.get('usr_1'))?.[0]?.used?.tokens !== 0,
    undefined,
    'the budget is used',
  );
  const balance = async () => (await gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
  await until(async () => (await balance()) < 1_015, undefined, 'the call is charged');
  expect(await balance()).to.be.closeTo(1_015, 0.1);
}

/** What is kept at upstreams: its account's alone. */
async function useStored({ gateway, call }: Host): Promise<void> {
  const { id } = await call('POST', '/responses', { model: 'm', input: 'Hi' });
  expect((await call('GET', `/responses/${id}`)).status).to.equal(200);
  const { key } = await gateway.keys.create({ userId: 'usr_2' });
  expect((await call('GET', `/responses/${id}`, undefined, key)).status).to.equal(404);
  expect((await call('GET', '/stored_objects')).data).to.have.length(1);
}

/** Limits: shared, refused calls told as an event of their account's. */
async function useLimits({ gateway, call, beside, receiver }: Host): Promise<void> {
  const userId = 'usr_flood';
  await gateway.webhooks.create(userId, { url: receiver.url, events: ['rate_limit.exceeded'] });
  const { key } = await gateway.keys.create({ userId });
  const statuses: number[] = [];
  while (statuses.at(-1) !== 429) {
    expect(statuses).to.have.length.below(10);
    statuses.push((await call('POST', '/chat/completions', ask, key)).status);
  }
  const isTold = () => receiver.received.some(({ body }) => body.includes('"rate_limit.exceeded"'));
  await until(isTold, undefined, 'rate_limit.exceeded is delivered');
  expect(await beside.collection('gateway_rates').countDocuments()).to.be.above(0);
}

/** What the operator sees. */
async function useAdmin({ call, beside }: Host, webhookId: string): Promise<void> {
  const paths = [
    'accounts',
    'accounts/usr_1',
    'webhooks',
    'refusals',
    `search?id=${webhookId}`,
    'processes',
    'backlog',
  ];
  for (const path of paths)
    expect({ path, ...(await call('GET', `/admin/${path}`)) }).to.include({ path, status: 200 });
  expect((await call('GET', '/admin/accounts/usr_1')).id ?? 'usr_1').to.equal('usr_1');
  const orphans = beside.collection<{ _id: string; ending: string }>('gateway_usage');
  const isClosed = async () => (await orphans.findOne({ _id: 'use_orphan' }))?.ending === 'orphaned';
  await until(isClosed, undefined, 'the call of the dead process is closed');
}

/** Uses every service of a gateway on a host with these settings, and checks that each does what it does without them. */
export async function useGateway(setting: HostSetting): Promise<void> {
  const undos: (() => unknown)[] = [];
  try {
    const host = await startHost(setting, (undo) => undos.unshift(undo));
    const webhookId = await useWebhooks(host);
    await useKeys(host);
    await useEvents(host);
    await useCredits(host);
    await useStored(host);
    await useLimits(host);
    await useAdmin(host, webhookId);
    expect(await host.gateway.health()).to.include({ ready: true });
    // a host's syncIndexes and deleteModel find nothing of the gateway's
    expect(host.connection.modelNames()).to.deep.equal([]);
    const failures = host.logger.lines.filter(({ level, message }) => level !== 'info' && !expected.test(message));
    expect(failures).to.deep.equal([]);
  } finally {
    for (const undo of undos) await undo();
  }
}
