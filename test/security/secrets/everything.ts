import { randomBytes } from 'node:crypto';
import express from 'express';
import mongoose, { type Connection, mongo } from 'mongoose';
import { createLogger } from '../../../src/cli/server/logger.ts';
import { createModelGateway, type Logger, type ModelGateway } from '../../../src/index.ts';
import { faultTolerant } from '../../../src/options/logger.ts';
import { hang, reset as resetAnswer, startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { createGateway, loopbackOptions } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { events, json, reset, ScriptedUpstream } from '../../support/upstream.ts';
import { sendBadRequests } from './bad-requests.ts';
import {
  credentialsInPublish,
  hostToken,
  inModelCall,
  inWebhookUrl,
  oldSealingKey,
  rotated,
  sealingKey,
  secret,
  upstreamKey,
} from './canaries.ts';
import { type LeakScanner, scanOutput } from './leak-scanner.ts';
import { showOperatorViews } from './operator-views.ts';

const event = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 1, threshold: 5 },
} as const;

/** Runs the whole product, well and ill, and shows the scanner all that it writes anywhere. */
export async function runEverything(scanner: LeakScanner) {
  // the lines of the stand-alone server, too
  const [asJson, asText] = [undefined, { colours: true }].map((readable) =>
    faultTolerant(
      createLogger(
        { level: 'info', ...(readable && { readable }) },
        { write: (line) => scanner.saw('stand-alone log', line) },
      ),
    ),
  ) as [Logger, Logger];
  const at =
    (level: keyof Logger): Logger['info'] =>
    (...line) => {
      scanner.saw('log', line);
      asJson[level](...line);
      asText[level](...line);
    };
  const logger: Logger = { info: at('info'), warn: at('warn'), error: at('error') };
  const statuses = new Map<number, number>();
  const errors = new Set<string>();
  let apiKey = '';
  const appName = `canary-${randomBytes(4).toString('hex')}`;
  let connection: Connection;
  /** One that no command fails on. */
  let admin: Connection;
  let upstream: ScriptedUpstream;
  let receiver: TestReceiver;
  let url: string;
  const closing: (() => Promise<unknown>)[] = [];

  async function call(method: string, path: string, body?: unknown, authorization = `Bearer ${apiKey}`, headers = {}) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(url + path, {
      method,
      headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: text }),
    }).catch((error) => error);
    if (response instanceof Error) return undefined;
    scanner.saw('response', [response.status, [...response.headers]]);
    const answer = await response.text().catch(() => '');
    scanner.saw('response', answer);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    return answer.startsWith('{') ? JSON.parse(answer) : answer;
  }

  async function failing(work: () => unknown): Promise<void> {
    try {
      await work();
    } catch (error) {
      scanner.saw('error', error);
      errors.add(String((error as { code?: unknown }).code));
    }
  }

  /** Cuts the connection at these commands of ours while something is done. */
  async function whileFailing(failCommands: string[], work: () => Promise<void>): Promise<void> {
    const database = admin.getClient().db('admin');
    const data = { failCommands, closeConnection: true, appName };
    await database.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
    await work().finally(() => database.command({ configureFailPoint: 'failCommand', mode: 'off' }));
  }

  async function serve(gateway: ModelGateway): Promise<string> {
    scanner.saw('gateway', gateway);
    const server = await listen(express().use(gateway.router));
    closing.unshift(server.close, gateway.close);
    return server.url;
  }

  async function modelCalls(): Promise<void> {
    const chat = { model: 'm', messages: [{ role: 'user', content: inModelCall }] };
    const path = `/v1/chat/completions?api-key=${inModelCall}`;
    const scripts = [
      json(200, { choices: [{}] }, { 'x-upstream-key': upstreamKey, 'set-cookie': `key=${upstreamKey}` }),
      json(401, { error: { message: `Incorrect API key provided: ${upstreamKey}`, code: 'invalid_api_key' } }),
      json(403, { error: { message: `${upstreamKey} may not`, code: 'forbidden' } }),
      json(500, { error: { message: 'failed' } }),
      json(302, {}, { location: 'http://127.0.0.1:1/' }),
      reset(),
    ];
    for (const script of scripts) {
      upstream.script = script;
      await call('POST', path, chat);
      await call('GET', '/v1/models');
    }
    upstream.script = events([{ choices: [{ delta: { content: 'hi' } }] }]);
    await call('POST', path, { ...chat, stream: true });
    upstream.script = reset('data: {"choices":[]}\n\n');
    await call('POST', path, { ...chat, stream: true });
  }

  async function deliveries(gateway: ModelGateway): Promise<void> {
    for (const answer of [200, 500, 302, hang, resetAnswer] as const) {
      receiver.answers(answer);
      const already = receiver.received.length;
      await gateway.publish(event);
      await receiver.count(already + 1);
    }
    receiver.answers(200);
    const gone = await startReceiver();
    await gone.stop();
    await call('POST', '/v1/webhooks', { url: `${gone.url}?token=${inWebhookUrl}`, events: [event.type], secret });
    await call('POST', '/v1/webhooks', { url: receiver.url.replace('http', 'https'), events: [event.type], secret });
    await gateway.publish(event);
  }

  async function publishErrors(gateway: ModelGateway): Promise<void> {
    const data = { ...event.data, secret: credentialsInPublish };
    await failing(() => gateway.publish({ ...event, data }));
    await failing(() => gateway.publish({ ...event, type: 'credits.high' }));
    await failing(() => gateway.publish(event, { idempotencyKey: '' }));
    await whileFailing(['insert', 'update', 'findAndModify'], () => failing(() => gateway.publish(event)));
    await whileFailing(['find', 'aggregate'], async () => {
      await call('GET', '/v1/webhooks');
      await failing(() => gateway.publish(event));
    });
  }

  async function wrongStarts(mongoUri: string): Promise<void> {
    const start = (secretKeys: string[]) => createGateway({ mongo: mongoUri, secretKeys });
    await failing(() => start([`another:${oldSealingKey}`]));
    await failing(() => start([`k 1:${sealingKey}`]));
    await failing(() => start([sealingKey]));
    await failing(() => start([`k1:${sealingKey}`, `k1:${oldSealingKey}`]));
    await failing(() =>
      createModelGateway({
        mongo: mongoUri,
        secretKeys: [`k1:${sealingKey}`],
        upstreams: [{ name: 'x', baseUrl: 'no url', apiKey: upstreamKey }],
      }),
    );
  }

  /** A host whose own authentication fails with the caller's header in its error. */
  async function hostThatFails(mongoUri: string): Promise<void> {
    const gateway = await createGateway({
      mongo: mongoUri,
      secretKeys: [`k1:${sealingKey}`, `k0:${oldSealingKey}`],
      collectionPrefix: 'host_',
      logger,
      logRequests: true,
      authenticate: (req) => {
        throw Object.assign(new Error(`cannot look up ${req.headers.authorization}`), { request: req });
      },
    });
    url = await serve(gateway);
    await call('GET', '/v1/webhooks', undefined, `Bearer ${hostToken}`);
    await call('GET', '/v1/models', undefined, `Bearer ${hostToken}`, { cookie: `session=${hostToken}` });
  }

  /** Every document of every collection, as the bytes that lie on the disk. */
  async function dump(): Promise<void> {
    for (const { collectionName } of (await connection.db?.collections()) ?? []) {
      const documents = await connection.collection(collectionName).find().toArray();
      for (const document of documents) scanner.saw(`database ${collectionName}`, mongo.BSON.serialize(document));
    }
  }

  const stop = scanOutput(scanner);
  const mongoUri = freshUri();
  connection = await mongoose.createConnection(mongoUri, { appName }).asPromise();
  admin = await mongoose.createConnection(mongoUri).asPromise();
  upstream = await ScriptedUpstream.start();
  receiver = await startReceiver(200);
  const options = {
    ...loopbackOptions,
    mongo: connection,
    upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, apiKey: upstreamKey }],
    // the job of a last attempt is in the database when that is looked through
    retryDelays: [20, 600_000],
    deliveries: { attemptTimeout: 300 },
    logger,
    logRequests: true,
  };

  const earlier = await createModelGateway({ ...options, secretKeys: [`k0:${oldSealingKey}`] });
  const { id: first } = await earlier.webhooks.create('usr_2', { url: receiver.url, events: [event.type], secret });
  await earlier.close();

  const gateway = await createModelGateway({ ...options, secretKeys: [`k1:${sealingKey}`, `k0:${oldSealingKey}`] });
  url = await serve(gateway);
  await gateway.start();
  const created = await gateway.keys.create({ userId: 'usr_1', name: 'canary' });
  apiKey = created.key;
  scanner.saw('creation of the key', created);
  scanner.saw('keys', await gateway.keys.list('usr_1'));

  const hookUrl = `${receiver.url}?token=${inWebhookUrl}`;
  const { id } = await call('POST', '/v1/webhooks', { url: hookUrl, events: [event.type], secret });
  await modelCalls();
  await deliveries(gateway);
  await call('POST', `/v1/webhooks/${id}/rotate_secret`, { secret: rotated, service_signature: 'previous' });
  await call('GET', `/v1/webhooks/${id}`);
  await call('PATCH', `/v1/webhooks/${id}`, { active: true });
  await call('GET', '/v1/webhooks');
  await deliveries(gateway);
  await sendBadRequests(call, receiver.url, id, apiKey);
  await publishErrors(gateway);

  // a secret that cannot be opened: the delivery fails, and says so in the log
  await connection.collection('gateway_webhooks').updateOne({ _id: id }, { $set: { secret: 'v1.k1.AA.AA.AA' } });
  await gateway.publish(event);
  await failing(() => gateway.webhooks.rotateSecret('usr_1', id, { secret: rotated }));
  await until(() => scanner.records.some(({ text }) => text.includes('an attempt could not be made')));
  scanner.saw('resealing', await gateway.webhooks.reseal());
  scanner.saw('webhook', await gateway.webhooks.get('usr_2', first));
  upstream.script = json(401, { error: { message: `Incorrect API key provided: ${upstreamKey}` } });
  const ids = ['usr_1', id, apiKey.slice(0, 30)];
  await showOperatorViews(scanner, { gateway, url, mongoUri, upstreamUrl: upstream.baseUrl, ids });
  await wrongStarts(mongoUri);
  await hostThatFails(mongoUri);
  await dump();

  for (const delivery of receiver.received) scanner.saw('receiver', [delivery.headers, delivery.body.toString()]);
  for (const request of upstream.requests) {
    scanner.saw('upstream', [request.path, request.rawHeaders, request.body.toString()]);
  }
  stop();
  return {
    statuses,
    errors,
    apiKey,
    received: receiver.received.length,
    relayed: upstream.requests.length,
    async close() {
      for (const close of closing) await close();
      await upstream.close();
      await receiver.stop();
      await connection.dropDatabase();
      await Promise.all([connection.close(), admin.close()]);
    },
  };
}
