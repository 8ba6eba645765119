import { once } from 'node:events';
import http from 'node:http';
import express from 'express';
import { createModelGateway } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';

async function listen(handler) {
  const server = http.createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

const answer = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const upstream = await listen((req, res) =>
  req.resume().on('end', () => res.setHeader('content-type', 'application/json').end(JSON.stringify(answer))),
);
const secret = 'a-long-enough-secret';
let arrived = () => {};
const arrival = new Promise((resolve) => {
  arrived = resolve;
});
const receiver = await listen(express().post('/', webhookReceiver({ secret, onEvent: arrived })));

const mongo = await mongoose.createConnection(process.env.MONGODB_URI).asPromise();
const gateway = await createModelGateway({
  mongo,
  secretKeys: [`k1:${Buffer.alloc(32, 1).toString('base64')}`],
  upstreams: [{ name: 'one', baseUrl: `${upstream.url}/v1`, models: ['m'] }],
  dashboard: { path: '/dashboard' },
  allowHttp: true,
  allowPrivateNetworks: ['127.0.0.0/8'],
  logger: { error: console.error, warn() {}, info() {} },
});
await gateway.start();
const { server, url } = await listen(express().use(gateway.router));
const { key } = await gateway.keys.create({ userId: 'usr_1' });

async function call(path, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(
    url + path,
    body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers },
  );
  return { status: response.status, text: await response.text() };
}

const chat = await call('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
const created = await call('/v1/webhooks', { url: receiver.url, events: ['credits.low'], secret });
const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 2 };
const { id } = await gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
const delivered = await arrival;
const page = await call('/dashboard/');
const [script] = /assets\/main-[0-9a-f]+\.js/.exec(page.text);
const json = await call('/v1/openapi.json');
const yaml = await call('/v1/openapi.yaml');
console.log(
  JSON.stringify({
    chat: JSON.parse(chat.text).choices[0].message.content,
    webhook: created.status,
    delivered: delivered.id === id,
    script: (await call(`/dashboard/${script}`)).status,
    reference: (await call('/dashboard/reference/')).status,
    json: JSON.parse(json.text).openapi,
    yaml: yaml.text.split('\n')[0],
  }),
);

for (const each of [server, upstream.server, receiver.server]) {
  each.closeAllConnections();
  each.close();
}
await gateway.close();
await mongo.close();
