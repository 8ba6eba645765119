import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { createModelGateway, type ModelGatewayOptions } from 'express-model-gateway';
import mongoose from 'mongoose';

const { MONGODB_URI = '' } = process.env;
await mongoose.connect(MONGODB_URI);
const Invoice = mongoose.model('Invoice', new mongoose.Schema({ paid: Boolean }));
await Invoice.createCollection();

/** Receives deliveries; fails the first. */
const statuses = new Map<string, number[]>();
let count = 0;
const receiver = http.createServer(async (req, res) => {
  let text = '';
  for await (const chunk of req) text += chunk;
  const { payment_id } = JSON.parse(text).data as { payment_id: string };
  count += 1;
  const status = count === 1 ? 500 : 200;
  statuses.set(payment_id, [...(statuses.get(payment_id) ?? []), status]);
  res.writeHead(status).end(() => receiver.emit('answered'));
});
receiver.listen(0, '127.0.0.1');
await once(receiver, 'listening');

async function answered(expected: number): Promise<void> {
  while (count < expected) await once(receiver, 'answered');
}

const options: ModelGatewayOptions = {
  mongo: mongoose,
  secretKeys: [`k1:${Buffer.alloc(32, 1).toString('base64')}`],
  credits: { prices: { '*': { input: 0, output: 0 } } },
  retryDelays: [2_500],
  allowHttp: true,
  allowPrivateNetworks: ['127.0.0.0/8'],
  logger: { error: console.error, warn() {}, info() {} },
};
const gateway = await createModelGateway(options);
await gateway.start();
const { port } = receiver.address() as AddressInfo;
const events = ['payment.completed'];
await gateway.webhooks.create('usr_1', { url: `http://127.0.0.1:${port}`, events, secret: 'long-enough-secret' });

/** A payment that is reported as an event alone. */
const payment = (payment_id: string) => ({
  type: 'payment.completed' as const,
  userId: 'usr_1',
  data: { payment_id, amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' },
});
const majority = { writeConcern: { w: 'majority' } } as const;
await mongoose.connection.transaction(async (session) => {
  await Invoice.create([{ paid: true }], { session });
  await gateway.publish(payment('invoice'), { session });
}, majority);
await answered(2);
await gateway.transaction((session) => gateway.publish(payment('gateway'), { session }));
await answered(3);

await gateway.credits?.topUp({ userId: 'usr_1', credits: 5, reference: 'top-up' });
const other = await mongoose.createConnection(MONGODB_URI).asPromise();
const session = await other.startSession();
const refused = await gateway.publish(payment('refused'), { session }).catch((error) => error.code);
await session.endSession();
await other.close();
const balance = await gateway.credits?.balance('usr_1');
// Agenda removes the job of the retry
const jobs = mongoose.connection.collection('gateway_jobs');
while ((await jobs.countDocuments()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
await gateway.close();

/** The copies of MongoDB's driver that this process has loaded. */
const drivers = Object.keys(createRequire(import.meta.url).cache).filter((file) =>
  /node_modules[\\/]mongodb[\\/]lib[\\/]index\.js$/.test(file),
);
console.log(
  JSON.stringify({
    drivers: drivers.length,
    mongoose: mongoose.version.split('.')[0],
    delivered: Object.fromEntries(statuses),
    jobsLeft: await mongoose.connection.collection('gateway_jobs').countDocuments(),
    invoices: await Invoice.countDocuments(),
    balance: balance?.creditsRemaining,
    session: refused,
  }),
);
receiver.close();
await mongoose.disconnect();
