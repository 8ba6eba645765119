import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { listenOn } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { until } from '../../support/until.ts';
import type { StoredDelivery } from './harness.ts';

const script = fileURLToPath(new URL('../worker/worker-process.ts', import.meta.url));
const appName = 'record-agrees';
/** How long workers are stopped: longer than an attempt may take, and in turn longer than its lease, 4.5 s, too. Milliseconds. */
const stops = [4_000, 6_000];
/** Milliseconds. */
const stress = 10_000;

/** One request as the receiver saw it, and what it answered. */
interface Arrival {
  readonly eventId: string;
  readonly at: number;
  /** Absent when it reset the connection instead. */
  readonly status?: number;
}

/** A receiver whose answers are told apart by their text: `answer <n>` to its nth request. */
async function startNumberedReceiver() {
  const arrivals: Arrival[] = [];
  const answer = (status: number, after = 0) => ({ status, after });
  const manners = [
    answer(200, 800),
    answer(500),
    answer(200, 800),
    null,
    answer(200, 50),
    answer(503, 800),
    answer(200),
  ];
  const server = createServer(async (req, res: ServerResponse) => {
    await req.resume().toArray();
    const manner = manners[arrivals.length % manners.length] ?? null;
    const eventId = String(req.headers['webhook-id']);
    const text = `answer ${arrivals.push({ eventId, at: Date.now(), ...(manner && { status: manner.status }) }) - 1}`;
    if (!manner) return res.socket?.resetAndDestroy();
    // the receiver answers slowly on purpose
    if (manner.after > 0) await sleep(manner.after);
    return res.writeHead(manner.status).end(text);
  });
  server.keepAliveTimeout = 30_000;
  const port = await listenOn(server);
  return {
    arrivals,
    url: `http://127.0.0.1:${port}/hook`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Where what is recorded of a delivery differs from what its receiver saw of it. */
function disagreements(
  delivery: Pick<StoredDelivery, 'state' | 'attempts' | 'eventId' | 'lease'>,
  arrivals: readonly Arrival[],
): string[] {
  const { state, attempts, eventId, lease } = delivery;
  const found: string[] = [];
  const mine = arrivals.filter((arrival) => arrival.eventId === eventId);
  const succeeded = mine.some(({ status }) => status === 200);
  if (state !== (succeeded ? 'delivered' : 'failed')) found.push(`it is ${state}`);
  if (lease !== null) found.push('a lease was left');
  const scheduled = attempts.filter(({ manual }) => !manual);
  if (scheduled.some(({ number }, i) => number !== i + 1)) found.push('attempts are misnumbered');
  const answers = attempts.filter(({ status }) => status !== undefined);
  for (const { status, response, startedAt, durationMs } of answers) {
    const arrival = arrivals[Number(response.replace('answer ', ''))];
    if (arrival?.eventId !== eventId || arrival.status !== status) found.push(`${response} was not ${status} to it`);
    const from = startedAt.getTime() - 50;
    const isInTime = arrival && arrival.at >= from && arrival.at <= from + durationMs + Math.max(...stops) + 1_000;
    if (!isInTime) found.push(`${response} was at ${arrival?.at}`);
  }
  if (new Set(answers.map(({ response }) => response)).size < answers.length) found.push('an answer is recorded twice');
  // the receiver answers within a second
  if (attempts.some(({ code }) => code === 'timeout'))
    found.push('an answer that came in time is recorded as timed out');
  if (attempts.length > mine.length) found.push(`${attempts.length} attempts are recorded of ${mine.length}`);
  return found;
}

describe('The record of a delivery', function () {
  this.timeout(180_000);
  const { logger: _, ...loopback } = loopbackOptions;
  const places = { concurrencyPerAccount: 100, concurrencyPerWebhook: 100 };
  const attempts = { retryDelays: [100], attemptTimeout: 3_000, ...places };
  const options = { ...loopback, deliveries: attempts, secretKeys: [newSecretKey()] };
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let publisher: ModelGateway;
  let receiver: Awaited<ReturnType<typeof startNumberedReceiver>>;

  before(async () => {
    database = await freshDatabase();
    publisher = await createGateway({ ...options, mongo: database.connection });
    receiver = await startNumberedReceiver();
  });
  after(async () => {
    await failing({}, 'off');
    await publisher.close();
    await receiver.stop();
    await database.drop();
  });

  /** Has commands of workers fail, so many of them. */
  async function failing(data: object, mode: 'off' | { times: number }): Promise<void> {
    const admin = database.connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode, data: { appName, ...data } });
  }

  async function startWorker(): Promise<ChildProcess> {
    const uri = new URL(database.uri);
    uri.searchParams.set('appName', appName);
    const child = await forkCompiled(script, { uri: uri.href, options });
    await once(child, 'message');
    return child;
  }

  const faults = [
    { failCommands: ['update'], closeConnection: true },
    { failCommands: ['update'], writeConcernError: { code: 91, errmsg: 'shutting down' } },
    { failCommands: ['update'], blockConnection: true, blockTimeMS: 1_500 },
    { failCommands: ['update', 'find', 'findAndModify'], errorCode: 11_602 },
  ];

  async function publish(until: number): Promise<void> {
    const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 5 };
    while (performance.now() < until) {
      const event = { type: 'credits.low', userId: 'usr_1', data } as const;
      // sets the pace
      await Promise.all([publisher.publish(event), publisher.publish(event), sleep(20)]);
    }
  }

  async function breakWrites(until: number): Promise<void> {
    for (let i = 0; performance.now() < until; i += 1) {
      await failing(faults[i % faults.length] ?? {}, { times: 2 });
      // the pace of the faults
      await sleep(700);
    }
    await failing({}, 'off');
  }

  async function stopInTurn(workers: readonly ChildProcess[], until: number): Promise<void> {
    for (let i = 0; performance.now() < until; i += 1) {
      const worker = workers[Math.floor(i / stops.length) % workers.length];
      worker?.kill('SIGSTOP');
      // how long the worker stands still
      await sleep(stops[i % stops.length]);
      worker?.kill('SIGCONT');
      // the worker runs for a while
      await sleep(300);
    }
  }

  it('matches what its receiver saw, even if workers stop and writes of outcomes are lost', async () => {
    const webhook = { url: receiver.url, events: ['credits.low'], secret: 'a-long-enough-secret' };
    await publisher.webhooks.create('usr_1', webhook);
    const workers = await Promise.all([startWorker(), startWorker()]);
    const endsAt = performance.now() + stress;
    await Promise.all([publish(endsAt), breakWrites(endsAt), stopInTurn(workers, endsAt)]);
    const collection = database.connection.collection<StoredDelivery>('gateway_deliveries');
    await until(async () => (await collection.countDocuments({ state: 'pending' })) === 0, 120_000);
    for (const worker of workers) {
      worker.send('close');
      await once(worker, 'exit');
    }

    const deliveries = await collection.find().toArray();
    const wrong = deliveries.flatMap((delivery) =>
      disagreements(delivery, receiver.arrivals).map((what) => {
        const mine = receiver.arrivals.filter(({ eventId }) => eventId === delivery.eventId);
        return `${what}: ${JSON.stringify([delivery.attempts, mine])}`;
      }),
    );
    expect(wrong.slice(0, 5), `${wrong.length} disagreements`).to.deep.equal([]);
    expect(deliveries.length).to.be.above(50);
  });
});
