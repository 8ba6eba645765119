import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { MongoBackend } from '@agendajs/mongo-backend';
import { Agenda, InMemoryNotificationChannel } from 'agenda';
import express from 'express';
import mongoose from 'mongoose';
import { Agent, request } from 'undici';
import { serve } from './rpc.mjs';

/**
 * The yardstick: stock Agenda, one job for each delivery, and a plain handler that signs and sends. No attempt log, no
 * retries, no outbox. It is told of its own jobs in memory, and may run a hundred of them at once.
 */
const { uri } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const connection = await mongoose.createConnection(uri).asPromise();
const dispatcher = new Agent({ connections: 50 });
const agenda = new Agenda({
  backend: new MongoBackend({ mongo: connection.db, collection: 'stock_jobs' }),
  notificationChannel: new InMemoryNotificationChannel(),
  processEvery: 1_000,
  maxConcurrency: 100,
  defaultConcurrency: 100,
  removeOnComplete: true,
});
agenda.on('error', console.error);
agenda.define('deliver', async (job) => {
  const { url, body, secret } = job.attrs.data;
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  const headers = { 'content-type': 'application/json', 'x-service-signature': signature };
  const answer = await request(url, { method: 'POST', headers, body, dispatcher });
  await answer.body.dump();
});

const webhooks = new Map();
let published = 0;
const app = express();
app.use(express.json());
app.post('/v1/events', async (req, res) => {
  const { user_id, type, data } = req.body;
  published += 1;
  const event = { id: `evt_${process.pid}_${published}`, type, created: new Date().toISOString(), data };
  const body = JSON.stringify(event);
  const { urls, secret } = webhooks.get(user_id);
  await Promise.all(urls.map((url) => agenda.now('deliver', { url, body, secret })));
  res.status(201).json(event);
});
const server = createServer(app);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
await agenda.ready;

serve({
  open: () => ({ port: server.address().port, key: 'none' }),
  start: () => agenda.start(),
  subscribe: (userId, urls, secret) => void webhooks.set(userId, { urls, secret }),
  usage() {
    const { user, system } = process.cpuUsage();
    return { cpu: (user + system) / 1e3, peak: process.resourceUsage().maxRSS / 1024 };
  },
  async close() {
    server.closeAllConnections();
    await agenda.stop(false);
    await connection.close();
  },
});
process.send?.('ready');
