// One server under test, in a process and on a core of its own: `node server.mjs <variant> <upstream port>`;
// BENCH_MONGO is the URI of its database; with BENCH_COUNT_COMMANDS it tells the commands that it sends there.
// Plain JavaScript over the built package, so that nothing but what is shipped is measured.
import { once } from 'node:events';
import http from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import express from 'express';
import mongoose from 'mongoose';
import { Counter, Histogram } from 'prom-client';
import { Pool } from 'undici';
import { WebSocket, WebSocketServer } from 'ws';
import { createCommandCounter } from '../commands.mjs';

const [variant, upstreamPort] = process.argv.slice(2);
const uri = process.env.BENCH_MONGO;
const counted = process.env.BENCH_COUNT_COMMANDS
  ? await mongoose.createConnection(uri, { monitorCommands: true }).asPromise()
  : undefined;
const commands = counted && createCommandCounter(counted);
const origin = `http://127.0.0.1:${upstreamPort}`;

/** Node's floor: two sockets and a pipe. */
function barePipe() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
  return http.createServer((req, res) => {
    const { method, url: path, headers } = req;
    const up = http.request({ host: '127.0.0.1', port: upstreamPort, agent, method, path, headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    up.on('error', () => res.destroy());
    req.pipe(up);
  });
}

/** What a careful hand writes with Express: the body read, undici's `dispatch`, backpressure. Nothing checked, nothing metered. */
function bareExpress() {
  const pool = new Pool(origin);
  const app = express();
  app.post('/v1/chat/completions', express.raw({ type: '*/*', limit: '32mb' }), (req, res) => {
    const { 'content-type': type, accept = '*/*' } = req.headers;
    const headers = { 'content-type': type, accept, authorization: 'Bearer upstream' };
    let controller;
    res.on('close', () => res.writableFinished || controller?.abort(new Error('left')));
    res.on('drain', () => controller?.resume());
    pool.dispatch(
      { path: req.originalUrl, method: 'POST', headers, body: req.body },
      {
        onRequestStart(started) {
          controller = started;
        },
        onResponseStart(_controller, status, answered) {
          const { connection, 'keep-alive': _, 'transfer-encoding': __, ...rest } = answered;
          res.writeHead(status, rest);
        },
        onResponseData(flow, chunk) {
          if (!res.write(chunk)) flow.pause();
        },
        onResponseEnd() {
          res.end();
        },
        onResponseError() {
          res.destroy();
        },
      },
    );
  });
  return http.createServer(app);
}

/** The least that joins a WebSocket with another: no backpressure, nothing checked. */
function socketPipe() {
  const server = http.createServer();
  new WebSocketServer({ server, perMessageDeflate: false }).on('connection', (client, { url }) => {
    client.pause();
    const up = new WebSocket(`ws://127.0.0.1:${upstreamPort}${url}`, { perMessageDeflate: false });
    up.on('open', () => client.resume());
    client.on('message', (data, isBinary) => up.send(data, { binary: isBinary }));
    up.on('message', (data, isBinary) => client.send(data, { binary: isBinary }));
    client.on('close', () => up.close());
    up.on('close', () => client.close());
  });
  return server;
}

/** Limits and credits that are never used up, agreed on with other processes; quotas whose thresholds are passed. */
const accounting = {
  limits: {
    perKey: { requestsPerMinute: 1e9, tokensPerMinute: 1e12 },
    perUser: { requestsPerMinute: 1e9 },
    shared: true,
  },
  quotas: { perUser: { unit: 'tokens', daily: 1e6, monthly: 1e7 } },
  credits: {
    prices: { '*': { input: 0.25, cachedInput: 0.025, output: 2 } },
    initialBalance: 1e9,
    lowThreshold: 1,
  },
};

const mounted = (router) => http.createServer(express().use(router));

/** Express is left with what the router does not know. */
function inFront(router) {
  const app = express();
  return http.createServer((req, res) => router(req, res, () => app(req, res)));
}

/** The product, as a host serves it: keys in MongoDB, validation, routing over two upstreams, metering. */
async function gateway(serve, options) {
  const { createModelGateway } = await import('express-model-gateway');
  const secretKeys = [`k1:${Buffer.alloc(32, 7).toString('base64')}`];
  const upstreams = [
    { name: 'one', baseUrl: `${origin}/v1`, apiKey: 'upstream', models: ['bench-*'] },
    { name: 'two', baseUrl: `${origin}/v1`, apiKey: 'upstream', models: ['other-*'] },
  ];
  const product = await createModelGateway({
    mongo: counted ?? uri,
    secretKeys,
    upstreams,
    collectionPrefix: `${variant}_`,
    ...options,
    sockets: { maxPerAccount: 2_000, ...options?.sockets },
  });
  // what a process that counts does beside its calls belongs to their cost
  if (options) await product.start();
  const { key } = await product.keys.create({ userId: 'usr_bench', name: 'bench' });
  const server = serve(product.router);
  product.attach(server);
  return { server, key, close: () => product.close() };
}

/** The product with metrics that count and measure nothing. */
function unmeasured() {
  Counter.prototype.incWithoutExemplar = () => {};
  Histogram.prototype.observeWithoutExemplar = () => {};
  return gateway(mounted);
}

const variants = {
  gateway: () => gateway(mounted),
  unmeasured,
  in_front: () => gateway(inFront),
  accounting: () => gateway(mounted, accounting),
};
const bare = { pipe: barePipe, express: bareExpress, socket_pipe: socketPipe };
const started = variants[variant] ? await variants[variant]() : { server: bare[variant](), key: 'none' };
started.server.listen(0, '127.0.0.1');
await once(started.server, 'listening');

process.on('message', async (message) => {
  if (message === 'memory') {
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
    process.send(process.memoryUsage().rss);
  } else if (message === 'commands') {
    process.send(commands());
  } else if (message === 'usage') {
    const { user, system } = process.cpuUsage();
    process.send({ cpu: user + system, peak: process.resourceUsage().maxRSS * 1024 });
  } else {
    await started.close?.();
    process.exit(0);
  }
});
// without the benchmark there is nobody to work for
process.on('disconnect', () => process.exit());
process.send({ port: started.server.address().port, key: started.key });
