import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import { scopes } from '../../../src/index.ts';
import { CommandProcess } from '../../cli/command.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import * as breakable from '../../support/database/breakable-database.ts';
import { createGateway, newSecretKey, type TestOptions } from '../../support/gateway.ts';
import { newId } from '../../support/ids.ts';
import { listen } from '../../support/listen.ts';
import { recordingLogger } from '../../support/logger.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { meeting } from '../../support/meeting.ts';
import { connectionTimes } from '../../support/mongo.ts';
import { watchStandstill } from '../../support/processes/standstill.ts';
import { eventually, until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const payment = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };
const event = { type: 'payment.completed', userId: 'usr_1', data: payment } as const;
/** What the database has of an account's credits, in millionths. */
type CreditAccount = { _id: string; balance: number; reservations?: { taken: number; charged: number }[] };

/** Of every webhook here. */
const secret = `whsec_${randomBytes(24).toString('base64')}`;
/** Micro-credits in a credit, and the tokens that a price is for. */
const micro = 1_000_000;
/** One credit for each call here, which uses one token of input, and one of output. */
const prices = { '*': { input: micro, output: 0 } };

/** Milliseconds. */
const [failFastWithin, answerWithin, goOnWithin] = [1_000, 5_000, 10_000] as const;

const refused = [503, 'database_unavailable', '1'];
const served = [200, undefined, null];

/** One way in which the database is away for a while, as a row meets it. */
interface Outage {
  /** Resolves when it has begun: once every row is ready. @param lastly is done right before */
  begin(lastly?: () => Promise<unknown>): Promise<void>;
  /** Resolves when it is over: once every row has seen enough. */
  end(): Promise<void>;
}

/** One line of the table; its columns are the ways in which a database fails. */
interface Row {
  readonly says: string;
  /** @default every way */
  readonly under?: breakable.FaultName;
  show(outage: Outage): Promise<void>;
}

let database: breakable.BreakableDatabase;
let upstream: ScriptedUpstream;
let receiver: TestReceiver;
/** To the database, beside what fails on the way. */
let beside: Connection;
/** The gateway that is asked under each fault, with everything on, and a key for it. */
let main: TestGateway;
let mainKey = '';
const clock = watchStandstill();
/** What ends all that was started. */
const ends: (() => Promise<unknown>)[] = [];

/** Has the provider hold back its answers to some calls. */
function holdAnswers() {
  const script = upstream.script;
  const held = { ...question, messages: [{ role: 'user', content: 'Held' }] };
  let count = 0;
  let answer = (): void => {};
  const release = new Promise<void>((resolve) => {
    answer = resolve;
  });
  upstream.script = async (res, request) => {
    if (request.body.includes('Held')) {
      count += 1;
      await release;
    }
    await script(res, request);
  };
  return { question: held, answer, untilHeld: (calls: number) => until(() => count === calls) };
}

/** A POST if there is a body. */
async function call(url: string, key: string, body?: object) {
  const startedAt = clock.now();
  const response = await fetch(url, {
    method: body ? 'POST' : 'GET',
    // only a fault that is found waits so long
    signal: AbortSignal.timeout(30_000),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const { error } = (await response.json()) as { error?: { code: string; message: string } };
  const { status, headers } = response;
  const answer = [status, error?.code, headers.get('retry-after')];
  return { status, answer, code: error?.code, message: error?.message, took: clock.now() - startedAt };
}

/** Expects this answer from each. Resolves to how long the slowest took, in milliseconds. */
async function slowest(expected: unknown, calls: readonly ReturnType<typeof call>[]): Promise<number> {
  const answers = await Promise.all(calls);
  for (const { answer } of answers) expect(answer).to.deep.equal(expected);
  return Math.max(...answers.map(({ took }) => took));
}

/** A key with another id, or another secret. */
const otherId = (key: string) => `${key.slice(0, 10)}zzzz${key.slice(14)}`;
const otherSecret = (key: string) => `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`;

/** A gateway that is served, until the fault is over. */
async function startGateway(collectionPrefix: string, options: TestOptions = {}) {
  const logger = recordingLogger();
  const upstreams = [{ name: 'u', baseUrl: upstream.baseUrl }];
  const gateway = await createGateway({ mongo: database.uri, upstreams, collectionPrefix, logger, ...options });
  ends.push(gateway.close);
  await gateway.start();
  const { url, close } = await listen(express().use(gateway.router));
  ends.push(close);
  const collection = (name: string) => beside.collection<CreditAccount>(collectionPrefix + name);
  const request = (path: string, key = mainKey, body?: object) => call(url + path, key, body);
  /** Calls that were answered. */
  let answered = 0;
  return {
    ...gateway,
    lines: logger.lines,
    newKey: (userId = 'usr_1') => gateway.keys.create({ userId, scopes }),
    request,
    async ask(key = mainKey, model = question.model) {
      const asked = await request('/v1/chat/completions', key, { ...question, model });
      if (asked.status === 200) answered += 1;
      return asked;
    },
    async untilKnown(key = mainKey) {
      const isRefused = async () => (await request('/v1/webhooks', key)).message?.includes('nothing was done');
      await until(isRefused, goOnWithin, 'the outage is known');
    },
    untilBack: () =>
      until(async () => (await request('/v1/webhooks')).status === 200, goOnWithin, 'it serves everything'),
    collection,
    account: () => collection('credit_accounts').findOne({ _id: 'usr_1' }),
    /** @param count of calls, each of them charged for */
    async untilCounted(count = answered) {
      const charged = { ending: 'complete', counted: true };
      // a look may still meet a broken connection
      const counted = () => collection('usage').countDocuments(charged).catch(String);
      await until(async () => (await counted()) === count, goOnWithin, 'usage is counted');
    },
  };
}
type TestGateway = Awaited<ReturnType<typeof startGateway>>;

/** One call of each kind that needs the database. */
const everyCall = () => [
  main.request('/v1/webhooks'),
  main.request('/v1/webhooks', mainKey, { url: receiver.url, events: ['credits.low'], secret }),
  main.request('/v1/deliveries'),
  main.request('/v1/events'),
  main.request('/v1/api_keys', mainKey, { name: 'laptop', scopes: ['models'] }),
  main.request('/v1/usage?from=2026-01-01&to=2026-01-31'),
  main.request('/v1/credits'),
  main.request('/v1/events', mainKey, { type: event.type, user_id: 'usr_1', data: payment }),
  main.ask(otherId(mainKey)),
];

/** What each function of the gateway comes to: an error's code, or nothing; and how long it took. */
async function everyFunction(): Promise<{ code: unknown; took: number }[]> {
  const { keys, webhooks, payments, credits, limits, publish } = main;
  if (!credits) throw new Error('the gateway has no credits');
  const userId = 'usr_2';
  const paid = () => ({ userId, amount: 1, currency: 'usd', paymentId: `pay_${randomUUID()}` });
  const startedAt = clock.now();
  const results: Promise<unknown>[] = [
    keys.create({ userId }),
    keys.list(userId),
    keys.get(newId('key', Date.now())),
    keys.revoke(newId('key', Date.now())),
    webhooks.create(userId, { url: receiver.url, events: ['payment.completed'], secret }),
    webhooks.list(userId),
    limits.reportExceeded({ userId, apiKeyId: null, limit: 1 }),
    payments.completed({ ...paid(), creditsAdded: 1 }),
    payments.failed({ ...paid(), reason: 'card_declined' }),
    credits.topUp({ userId, credits: 1, reference: randomUUID() }),
    credits.balance(userId),
    publish(event),
  ];
  const settled = results.map(async (result) => {
    const code = await result.then(() => undefined).catch((error) => error.code ?? error);
    return { code, took: clock.now() - startedAt };
  });
  return Promise.all(settled);
}

const table: readonly Row[] = [
  {
    says: 'a call that needs the database is answered in 5 s, refused in one when the outage is known, and served after it',
    async show({ begin, end }) {
      await begin();
      for (const { status, answer, code, took } of await Promise.all(everyCall())) {
        expect(took).to.be.below(answerWithin);
        // a member that has just lost its office still reads
        if (status < 500) continue;
        expect(code).to.be.oneOf(['database_unavailable', 'publish_unconfirmed']);
        expect(answer).to.deep.equal([503, code, '1']);
      }
      await main.untilKnown();
      expect(await slowest(refused, everyCall())).to.be.below(failFastWithin);
      await end();
      await main.untilBack();
    },
  },
  {
    says: 'a function that the host calls settles in 5 s, and rejects in one when the outage is known',
    async show({ begin }) {
      await begin();
      for (const { code, took } of await everyFunction()) {
        expect(took).to.be.below(answerWithin);
        // a member that has just lost its office still reads
        expect(code).to.be.oneOf([undefined, 'database_unavailable', 'publish_unconfirmed']);
      }
      await main.untilKnown();
      for (const { code, took } of await everyFunction()) {
        expect(code).to.equal('database_unavailable');
        expect(took).to.be.below(failFastWithin);
      }
    },
  },
  {
    says: 'a model call of a known account that reserves no credits is served in 5 s, in one when the outage is known, and counted once after it',
    async show({ begin, end }) {
      const ask = () => main.ask(mainKey, 'free');
      expect(await slowest(served, [ask()])).to.be.below(answerWithin);
      await main.untilCounted();
      await begin();
      expect(await slowest(served, [ask()])).to.be.below(answerWithin);
      await main.untilKnown();
      const asked = [ask(), ask(), ask(), main.request('/v1/models')];
      expect(await slowest(served, asked)).to.be.below(failFastWithin);
      await end();
      await main.untilBack();
      await main.untilCounted();
    },
  },
  {
    says: 'an event is published and arrives in 10 s after the outage',
    async show({ begin, end }) {
      await begin();
      await end();
      const endedAt = clock.now();
      await main.untilBack();
      // as `publish_unconfirmed` asks for: again with the same key
      const keyed = { ...event, idempotencyKey: randomUUID() };
      const again = (error: { code?: string }) => (error.code === 'publish_unconfirmed' ? null : Promise.reject(error));
      const published = await eventually(() => main.publish(keyed).catch(again), Boolean, goOnWithin);
      const isIt = ({ body }: { body: Buffer }) => body.toString().includes(String(published?.id));
      await until(() => receiver.received.some(isIt), goOnWithin, 'it arrives');
      expect(clock.now() - endedAt).to.be.below(goOnWithin);
    },
  },
  {
    says: 'a stand-alone gateway answers in a second when it knows, serves everything again, and ends with 0',
    under: 'it is killed',
    async show({ begin, end }) {
      const env = { MONGODB_URI: database.uri, SECRET_KEYS: newSecretKey(), UPSTREAM_BASE_URL: upstream.baseUrl };
      const command = new CommandProcess(['start'], { PORT: '0', ...env, COLLECTION_PREFIX: 'command_' });
      ends.push(() => command.end('SIGKILL'));
      const [, baseUrl = ''] = await command.until(/^Base URL: (\S+)$/m);
      const [, key = ''] = await command.until(/^API key: (\S+)$/m);
      const request = (path: string, body?: object) => call(baseUrl + path, key, body);
      const ask = () => request('/chat/completions', question);
      const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
      const needDatabase = () => [
        request('/webhooks'),
        request('/events'),
        request('/api_keys', { name: 'laptop', scopes: ['models'] }),
        request('/events', { type: 'credits.low', user_id: 'usr_1', data }),
      ];
      await slowest(served, [ask()]);
      await begin();
      // a call may fail at once before that, where its connection has just broken
      await until(() => command.stderr.includes('the database is unavailable'), 20_000, 'the outage is known');
      const isQuick = (took: number) => took < failFastWithin;
      expect(await measureAgain(() => slowest(refused, needDatabase()), isQuick)).to.satisfy(isQuick);
      const others = () => [ask(), ask(), request('/models')];
      expect(await measureAgain(() => slowest(served, others()), isQuick)).to.satisfy(isQuick);
      expect(command.child.exitCode).to.equal(null);
      await end();
      await until(async () => (await request('/webhooks')).status === 200, 20_000, 'it is back');
      await slowest(served, [ask()]);
      expect(await command.end()).to.equal(0);
    },
  },
  {
    says: 'a refused request leaves no unhandled rejection, which would end the process',
    under: 'it is killed',
    async show({ begin }) {
      const quick = { ...connectionTimes, serverSelectionTimeoutMS: 500 };
      const mongo = await mongoose.createConnection(database.uri, quick).asPromise();
      ends.push(() => mongo.close());
      const gateway = await startGateway('gateway_', { mongo });
      const unhandled: unknown[] = [];
      const note = (reason: unknown) => void unhandled.push(reason);
      process.prependListener('unhandledRejection', note);
      try {
        await begin();
        await gateway.untilKnown();
        const { answer } = await gateway.request('/v1/webhooks', otherId(mainKey));
        expect(answer).to.deep.equal(refused);
        // a look-up that was begun all the same has failed before this one, which waits as long for a server
        const failed = await mongo.getClient().db().command({ ping: 1 }).catch(String);
        expect(failed).to.match(/ServerSelection/);
        await turn();
        expect(unhandled).to.deep.equal([]);
      } finally {
        process.off('unhandledRejection', note);
      }
    },
  },
  {
    says: 'a gateway closes within 35 s',
    under: 'the network drops what is sent',
    async show({ begin }) {
      const gateway = await startGateway('close_', { drainTimeout: 0 });
      const { key } = await gateway.newKey();
      await begin();
      expect((await gateway.ask(key)).status).to.be.oneOf([200, 503]);
      const startedAt = performance.now();
      await gateway.close();
      expect(performance.now() - startedAt).to.be.below(35_000);
    },
  },
  {
    says: 'a key that was good is accepted until keyGracePeriod after its check, and no other is',
    under: 'its connections are closed',
    async show({ begin }) {
      const keyGracePeriod = 6_000;
      const gateway = await startGateway('keys_', { modelCalls: { keyGracePeriod } });
      const good = await gateway.newKey('usr_1');
      const revoked = await gateway.newKey('usr_2');
      const unseen = await gateway.newKey('usr_3');
      await slowest(served, [gateway.ask(good.key), gateway.ask(revoked.key)]);
      await gateway.keys.revoke(revoked.id);
      await begin(() => slowest(served, [gateway.ask(good.key)]));
      const checkedAt = performance.now();
      await gateway.untilKnown(good.key);
      expect((await gateway.ask(good.key)).answer).to.deep.equal(served);
      expect((await gateway.ask(revoked.key)).answer).to.deep.equal([401, 'invalid_api_key', null]);
      expect((await gateway.ask(otherSecret(good.key))).status).to.equal(401);
      expect((await gateway.ask(unseen.key)).answer).to.deep.equal(refused);
      // measures time: until the grace period has been over for a second
      await sleep(Math.max(0, checkedAt + keyGracePeriod + 1_000 - performance.now()));
      expect((await gateway.ask(good.key)).answer).to.deep.equal(refused);
    },
  },
  {
    says: 'a key is not accepted with keyGracePeriod 0',
    under: 'its connections are closed',
    async show({ begin }) {
      const gateway = await startGateway('strict_', { modelCalls: { keyGracePeriod: 0 } });
      const { key } = await gateway.newKey();
      await slowest(served, [gateway.ask(key)]);
      const checkedAt = performance.now();
      await begin();
      await gateway.untilKnown(key);
      // measures time: what was read serves for a second
      await sleep(Math.max(0, checkedAt + 1_000 - performance.now()));
      expect((await gateway.ask(key)).answer).to.deep.equal(refused);
    },
  },
  {
    says: 'a call that costs credits is refused, for nothing can be reserved; one that is free is served; both go on after the outage',
    under: 'its connections are closed',
    async show({ begin, end }) {
      const gateway = await startGateway('credits_', {
        credits: { prices: { ...prices, free: {} }, initialBalance: 100 },
      });
      const { key } = await gateway.newKey('usr_1');
      const askFree = () => gateway.ask(key, 'free');
      await slowest(served, [gateway.ask(key), askFree()]);
      await begin();
      await gateway.untilKnown(key);
      expect(await slowest(refused, [gateway.ask(key), gateway.ask(key)])).to.be.below(failFastWithin);
      await slowest(served, [askFree()]);
      await end();
      await until(async () => (await gateway.ask(key)).status === 200);
      // what was reserved for calls that have ended is reserved no longer
      await until(async () => {
        const { balance, reservations = [] } = (await gateway.account()) ?? { balance: Number.NaN };
        return balance === 98 * micro && reservations.every(({ taken, charged }) => taken === charged);
      });
    },
  },
  {
    says: 'usage is kept up to a number of records; the log says once how much is lost, and nothing stays reserved for it',
    under: 'its connections are closed',
    async show({ begin, end }) {
      const usageBacklog = 5;
      const kept = 1 + usageBacklog;
      const credits = { prices, initialBalance: 1_000 };
      const gateway = await startGateway('usage_', { credits, fixed: { usageBacklog } });
      const { key } = await gateway.newKey();
      await slowest(served, [gateway.ask(key)]);
      await gateway.untilCounted();
      // they are reserved before, and end while the database is away
      const held = holdAnswers();
      const calls = Array.from({ length: usageBacklog + 3 }, () =>
        gateway.request('/v1/chat/completions', key, held.question),
      );
      await held.untilHeld(calls.length);
      await begin();
      await gateway.untilKnown(key);
      held.answer();
      await slowest(served, calls);
      await end();
      await gateway.untilCounted(kept);
      const told = (part: string) => gateway.lines.filter(({ message }) => message.includes(part));
      await until(() => told('usage records are written again').length > 0);
      expect(told('more usage records wait than are kept')).to.have.lengthOf(1);
      expect(told('usage records are written again').map(({ fields }) => fields?.lost)).to.deep.equal([3]);
      // of the others it is known that they have begun
      expect(await gateway.collection('usage').countDocuments({ ending: 'complete' } as object)).to.equal(kept);
      const reserved = async () =>
        (await gateway.account())?.reservations?.reduce((sum, { taken, charged }) => sum + taken - charged, 0);
      await until(async () => (await reserved()) === 0);
      expect((await gateway.account())?.balance).to.equal((1_000 - kept) * micro);
    },
  },
];

/** Shows all rows during one outage. Whoever has failed keeps no other waiting. */
function showAll(rows: readonly Row[], fault: breakable.DatabaseFault): Promise<void>[] {
  const lasts: (() => Promise<unknown>)[] = [];
  const meetBegin = meeting(rows, async () => {
    await Promise.all(lasts.map((last) => last()));
    await fault.begin();
  });
  const meetEnd = meeting(rows, fault.end);
  return rows.map(async (row) => {
    try {
      await row.show({
        begin(lastly = async () => {}) {
          lasts.push(lastly);
          return meetBegin(row);
        },
        end: () => meetEnd(row),
      });
    } finally {
      void meetBegin(row);
      void meetEnd(row);
    }
  });
}

describe('while the database is away,', () => {
  async function endSince(count: number): Promise<void> {
    for (const end of ends.splice(count).reverse()) await end();
  }

  before(async () => {
    database = await breakable.startBreakableDatabase();
    ends.push(database.stop);
    upstream = await ScriptedUpstream.start();
    ends.push(() => upstream.close());
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    upstream.script = json(200, { choices: [{}], data: [], usage });
    receiver = await startReceiver();
    ends.push(receiver.stop);
    beside = await mongoose.createConnection(database.directUri).asPromise();
    ends.push(() => beside.close());
    main = await startGateway('gateway_', {
      limits: { perUser: { requestsPerMinute: 10_000 }, shared: true },
      credits: { prices: { '*': { input: 1_000, output: 1_000 }, free: {} }, initialBalance: 100 },
    });
    ({ key: mainKey } = await main.newKey());
    await main.webhooks.create('usr_1', { url: receiver.url, events: ['payment.completed'], secret });
  });
  after(async () => {
    clock.stop();
    await endSince(0);
  });

  for (const name of breakable.faultNames)
    describe(`because ${name},`, () => {
      const rows = table.filter(({ under = name }) => under === name);
      let started = 0;
      let shown: readonly Promise<void>[] = [];

      before(async () => {
        await main.untilBack();
        started = ends.length;
        shown = showAll(rows, database.faults[name]);
        // each failure is told in its turn
        for (const row of shown) row.catch(() => {});
      });
      after(() => endSince(started));

      for (const [i, { says }] of rows.entries()) it(says, () => shown[i]);
    });
});
