'use strict';
// What every host of the table does, whatever its packages were loaded by: it hands them in, and gets told how they did.

const { once } = require('node:events');
const { writeFileSync } = require('node:fs');
const http = require('node:http');

const secret = 'a-long-enough-secret';
const { HOST_REPORT, MONGODB_URI, UPSTREAM_URL } = process.env;

/** Serves the gateway, and the receiver at `/hooks`, from an Express app. `wrap` makes a listener of the app. */
function onExpress(express, wrap = (app) => app) {
  return async (gateway, receiver) => {
    const app = express().post('/hooks', receiver).use(gateway.router);
    const server = http.createServer(wrap(app)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { url: `http://127.0.0.1:${server.address().port}`, close: () => closeServer(server) };
  };
}

async function closeServer(server) {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

/** Status and type of what is there, and what it says first; of a page with a script, that one's in place of the text. */
async function look(url) {
  const page = await fetch(url);
  const text = await page.text();
  const [, script] = /<script[^>]* src="([^"]+)"/.exec(text) ?? [];
  const [says] = /"?openapi"?: ?"?[\d.]+/.exec(text) ?? [text.slice(0, 18)];
  if (!script) return `${kindOf(page)}: ${says}`;
  return `${kindOf(page)}, script ${kindOf(await fetch(new URL(script, url)))}`;
}

function kindOf({ status, headers }) {
  return `${status} ${headers.get('content-type')?.split(';')[0]}`;
}

/**
 * A chat, the creation of a webhook and requests that openapi.yaml forbids, a publish, `start()` and a delivery. Writes what came of each
 * to the file that `HOST_REPORT` names.
 * @param packages what the host has imported
 * @param options `serve`: how it serves the router; `mongo`: how mongoose connects; `gateway`: further options; `paths`: what else is looked at
 */
async function tryHost(packages, { serve, mongo, gateway: options, paths = [] } = {}) {
  const { express, mongoose, createModelGateway, GatewayError, webhookReceiver } = packages;
  const report = {};
  const refused = await createModelGateway({}).catch((error) => error);
  report.refused = refused instanceof GatewayError ? refused.code : String(refused);

  const connection = await mongoose.createConnection(MONGODB_URI, mongo).asPromise();
  const gateway = await createModelGateway({
    mongo: connection,
    secretKeys: [`k1:${Buffer.alloc(32, 1).toString('base64')}`],
    upstreams: [{ name: 'upstream', baseUrl: UPSTREAM_URL, apiKey: 'none', models: ['small'] }],
    allowHttp: true,
    allowPrivateNetworks: ['127.0.0.0/8'],
    logger: { error: console.error, warn() {}, info() {} },
    ...options,
  });
  let receive;
  const received = new Promise((resolve) => {
    receive = resolve;
  });
  const receiver = webhookReceiver({ secret, onEvent: (event) => receive(event.id) });
  const server = await (serve ?? onExpress(express))(gateway, receiver);

  const { key } = await gateway.keys.create({ userId: 'usr_1' });
  async function call(method, path, body) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(server.url + path, request);
    return { status: response.status, body: await response.json() };
  }
  const messages = [{ role: 'user', content: 'Hello' }];
  const chat = await call('POST', '/v1/chat/completions', { model: 'small', messages });
  report.chat = chat.body.choices?.[0].message.content ?? chat.body;

  const webhook = { url: `${server.url}/hooks`, events: ['credits.low'], secret };
  report.requests = [];
  for (const [method, path, body] of [
    ['POST', '/v1/webhooks', webhook],
    ['POST', '/v1/webhooks', { ...webhook, events: undefined }],
    ['POST', '/v1/webhooks', { ...webhook, events: ['credits.low', 7] }],
    ['POST', '/v1/webhooks', { ...webhook, colour: 'red' }],
    ['GET', '/v1/deliveries?limit=2'],
    ['GET', '/v1/deliveries?limit=many'],
  ]) {
    const { status, body: answer } = await call(method, path, body);
    report.requests.push(answer.error ? `${status} ${answer.error.code} ${answer.error.param}` : status);
  }

  const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 2 };
  const event = await gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
  report.published = event.id.slice(0, 4);
  report.started = await gateway.start().then(
    () => true,
    (error) => (error instanceof GatewayError ? error.code : String(error)),
  );
  if (report.started === true) report.delivered = (await received) === event.id;
  for (const path of paths) report[path] = await look(server.url + path);

  await server.close();
  await gateway.close();
  await connection.close();
  writeFileSync(HOST_REPORT, JSON.stringify(report));
  return report;
}

module.exports = { onExpress, tryHost };
