import { AsyncLocalStorage } from 'node:async_hooks';
import { expect } from 'chai';
import express from 'express';
import type { Connection } from 'mongoose';
import { type ModelGateway, scopes } from '../../../src/index.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { newId } from '../../support/ids.ts';
import { listen } from '../../support/listen.ts';

const count = 3_000;
/** When what is listed was stored: the hour and the day may change between then and the loading of this file. */
let now = Date.now();
const types = ['credits.low', 'payment.completed'] as const;

/** Most have a pending delivery and a failed one: they are looked at for `pending`, and stand `failed`. */
function statesOf(i: number): readonly ('pending' | 'delivered' | 'failed' | 'canceled')[] {
  if (i % 100 === 0) return ['delivered', 'delivered'];
  if (i % 100 === 1) return ['canceled', 'canceled'];
  if (i === 2) return ['pending', 'delivered'];
  return ['pending', 'failed'];
}

/** What the server did for a request: commands, keys and documents that it looked at, and how it found them. */
interface Cost {
  /** What it answered. */
  readonly page: { readonly data: readonly unknown[] };
  readonly commands: number;
  readonly keys: number;
  readonly documents: number;
  readonly plans: readonly string[];
  readonly sorted: boolean;
}

describe('A list', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let connection: Connection;
  let gateway: ModelGateway;
  let server: Awaited<ReturnType<typeof listen>>;
  /** Commands of a request, by the request: the gateway sends others of its own at any time. */
  const commandsOf = new AsyncLocalStorage<string[]>();
  let started: string[] = [];
  let webhook: string;
  let event: string;
  let userId = 'usr_1';
  /** One amid the others, from which a cursor goes on. */
  const amid = { event: '', delivery: '', key: '', moment: '' };

  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  async function get(path: string): Promise<any> {
    const response = await fetch(server.url + path);
    expect(response.status, path).to.equal(200);
    return response.json();
  }

  const db = () => connection.getClient().db(connection.name);
  const insert = (name: string, documents: object[]) => db().collection(`gateway_${name}`).insertMany(documents);

  async function store(): Promise<void> {
    now = Date.now();
    const made: { id: string }[] = [];
    for (let i = 0; i < 50; i += 1) {
      made.push(
        await gateway.webhooks.create('usr_1', {
          url: 'https://example.com',
          events: ['credits.low'],
          secret: 'd8f3Kq9vLx2Zt7Wb',
        }),
      );
    }
    const [first, second] = [made[0]?.id ?? '', made[1]?.id ?? ''];
    webhook = first;
    const events: object[] = [];
    const deliveries: object[] = [];
    for (let i = 0; i < count; i += 1) {
      const at = new Date(now - (count - i) * 20);
      const _id = newId('evt', at.getTime());
      event = _id;
      const isAmid = i === count / 2;
      if (isAmid) Object.assign(amid, { event: _id, moment: at.toISOString() });
      const type = types[i % 2];
      const body = Buffer.from(JSON.stringify({ id: _id, type, created: at.toISOString(), data: {} }));
      const common = { userId: 'usr_1', type, test: false };
      const kept = {
        created: at,
        acceptedAt: at,
        body,
        skipped: [],
        fanOut: 'done',
        fanOutAt: at,
        fanOutLeases: 1,
        idempotencyKey: _id,
      };
      events.push({ _id, ...common, ...kept, targets: [first, second] });
      for (const [k, state] of statesOf(i).entries()) {
        const own = { eventId: _id, webhookId: [first, second][k], state, attempts: [], createdAt: at, dueAt: at };
        const delivery = newId('dlv', at.getTime());
        if (isAmid) amid.delivery = delivery;
        deliveries.push({
          _id: delivery,
          ...common,
          ...own,
          maxAttempts: 6,
          attempt: 1,
          lease: null,
        });
      }
      const unheard = newId('evt', at.getTime());
      events.push({ _id: unheard, ...common, type: 'credits.low', ...kept, idempotencyKey: unheard, targets: [] });
    }
    await insert('events', events);
    await insert('deliveries', deliveries);
    const many = (fn: (i: number) => object) => Array.from({ length: count }, (_, i) => fn(i));
    const sums = { requests: 1, inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, images: 0 };
    const keyIds = Array.from({ length: count }, () => newId('key', now)).sort();
    amid.key = keyIds[count / 2] ?? '';
    const day = (i: number) => new Date(now - i * 86_400_000).toISOString().slice(0, 10);
    await Promise.all([
      insert(
        'keys',
        many((i) => ({
          _id: keyIds[i],
          userId: 'usr_1',
          name: '',
          hash: '',
          scopes: ['models'],
          models: null,
          createdAt: new Date(now),
          expiresAt: null,
          lastUsedAt: null,
          revokedAt: new Date(now),
        })),
      ),
      insert(
        'usage_counters',
        many((i) => ({ _id: `c${i}`, userId: 'usr_1', day: day(i), model: 'm', keyId: null, ...sums })),
      ),
      insert(
        'tallies',
        many((i) => {
          const hour = new Date(Math.floor(now / 3_600_000) * 3_600_000 - i * 3_600_000);
          return { _id: `${webhook}:${hour.toISOString()}`, hour, succeeded: 1, failed: 0, durations: {} };
        }),
      ),
      insert(
        'recoveries',
        many(() => ({
          _id: newId('rec', now),
          userId: 'usr_1',
          webhookId: webhook,
          state: 'done',
          since: new Date(0),
          until: new Date(0),
          states: [],
          found: 0,
          resent: 0,
          delivered: 0,
          failed: 0,
          phase: 'events',
          after: null,
          batch: [],
          seen: 0,
          lease: null,
          startedAt: new Date(now),
        })),
      ),
    ]);
  }

  before(async () => {
    database = await watchedDatabase();
    connection = database.connection;
    connection.getClient().on('commandStarted', ({ commandName }) => commandsOf.getStore()?.push(commandName));
    gateway = await createGateway({
      mongo: connection,
      authenticate: () => ({ userId, scopes }),
    });
    const counted: express.RequestHandler = (_req, _res, next) => commandsOf.run(started, next);
    server = await listen(express().use(counted, gateway.router));
    await store();
  });
  after(async () => {
    await server.close();
    await gateway.close();
    await database.drop();
  });

  async function costOf(path: string): Promise<Cost> {
    await db().command({ profile: 0 });
    await db().collection('system.profile').drop();
    await db().command({ profile: 2 });
    started = [];
    const page = await get(path);
    const commands = started.length;
    await db().command({ profile: 0 });
    const found = await db()
      .collection('system.profile')
      .find({ ns: /gateway_/ })
      .toArray();
    const sum = (field: string) => found.reduce((total, one) => total + Number(one[field] ?? 0), 0);
    return {
      page,
      commands,
      keys: sum('keysExamined'),
      documents: sum('docsExamined'),
      plans: found.flatMap(({ planSummary }) => (planSummary ? [String(planSummary)] : [])),
      sorted: found.some(({ hasSortStage }) => hasSortStage === true),
    };
  }

  /** Path, and at most so many commands and keys for a page of 20. */
  const lists: [string, number, number][] = [
    ['/v1/events?', 2, 100],
    ['/v1/events?type=payment.completed', 2, 100],
    ['/v1/events?state=none', 2, 30],
    ['/v1/events?state=none&type=credits.low', 2, 30],
    ['/v1/events?state=none&type=payment.completed', 2, 30],
    ...(['pending', 'delivered', 'canceled', 'failed'] as const).flatMap((state): [string, number, number][] => [
      [`/v1/events?state=${state}`, 12, 8_500],
      [`/v1/events?state=${state}&type=credits.low`, 12, 8_500],
    ]),
    ['/v1/deliveries?', 3, 100],
    ...(['pending', 'delivered', 'canceled', 'failed'] as const).map((state): [string, number, number] => [
      `/v1/deliveries?state=${state}`,
      3,
      100,
    ]),
    ['/v1/deliveries?type=credits.low', 3, 100],
    ['/v1/deliveries?webhook_id=WEBHOOK', 3, 100],
    ['/v1/deliveries?webhook_id=WEBHOOK&state=failed&type=credits.low', 3, 100],
    ['/v1/deliveries?event_id=EVENT', 3, 10],
    // moments are bounds of the ids, and a cursor is a place in the same index
    ['/v1/deliveries?since=MOMENT', 3, 100],
    ['/v1/deliveries?until=MOMENT', 3, 100],
    ['/v1/deliveries?since=MOMENT&until=NOW&state=failed', 3, 100],
    ['/v1/deliveries?webhook_id=WEBHOOK&until=MOMENT', 3, 100],
    ['/v1/deliveries?after=DELIVERY', 3, 100],
    ['/v1/deliveries?after=DELIVERY&state=pending&webhook_id=WEBHOOK', 3, 100],
    ['/v1/events?after=AMID', 2, 100],
    ['/v1/events?after=AMID&state=none', 2, 30],
    ['/v1/events?after=AMID&state=failed', 12, 8_500],
    ['/v1/webhooks?', 1, 30],
    ['/v1/webhooks/WEBHOOK/recoveries?', 2, 30],
    ['/v1/api_keys?', 1, 30],
    ['/v1/api_keys?after=KEY', 1, 30],
    ['/v1/users/usr_1/api_keys?', 1, 30],
    ['/v1/users/usr_1/api_keys?after=KEY', 1, 30],
    ['/v1/users/usr_2/api_keys?', 1, 30],
  ];
  const named = (path: string) =>
    path
      .replace('WEBHOOK', webhook)
      .replace('EVENT', event)
      .replace('AMID', amid.event)
      .replace('DELIVERY', amid.delivery)
      .replace('KEY', amid.key)
      .replace('MOMENT', amid.moment)
      .replace('NOW', new Date(now).toISOString());

  for (const [path, commands, keys] of lists) {
    it(`costs ${commands} commands and ${keys} keys of an index at most: GET ${path}`, async () => {
      const cost = await costOf(`${named(path)}&limit=20`);
      // an empty page would be cheap in any case
      if (/=(AMID|DELIVERY|KEY|MOMENT)/.test(path)) expect(cost.page.data).to.have.length(20);
      expect(cost.commands, 'commands').to.be.within(1, commands);
      expect(cost.keys, 'keys').to.be.at.most(keys);
      expect(cost.documents, 'documents').to.be.at.most(keys);
      for (const plan of cost.plans) expect(plan).to.match(/^(IXSCAN|IDHACK|EXPRESS|DISTINCT_SCAN)/);
      expect(cost.sorted).to.equal(false);
    });
  }

  it('of statistics reads a week by its ids, and one of usage reads the requested days', async () => {
    const stats = await costOf(`/v1/webhooks/${webhook}/stats`);
    expect(stats.commands).to.be.at.most(5);
    expect(stats.keys).to.be.within(168, 190);
    const usage = await costOf('/v1/usage');
    expect(usage.commands).to.equal(1);
    expect(usage.keys).to.be.within(31, 33);
    for (const plan of [...stats.plans, ...usage.plans]) expect(plan).to.match(/^(IXSCAN|IDHACK|EXPRESS)/);
  });

  for (const [state, total] of [
    ['pending', 1],
    ['delivered', 30],
    ['canceled', 30],
    ['failed', 2_939],
  ] as const) {
    it(`of events that are ${state} has no gap and no duplicate over pages that may end early`, async () => {
      const seen: string[] = [];
      let pages = 0;
      for (let after = '', hasMore = true; hasMore; pages += 1) {
        const page = await get(`/v1/events?state=${state}&limit=100${after && `&after=${after}`}`);
        seen.push(...page.data.map(({ id }: { id: string }) => id));
        for (const one of page.data) expect(one.state).to.equal(state);
        hasMore = page.has_more;
        if (hasMore) after = page.next_after ?? seen.at(-1);
      }
      expect(new Set(seen).size).to.equal(total);
      expect(seen).to.deep.equal([...seen].sort().reverse());
      expect(pages).to.be.at.most(Math.ceil(total / 100) + 2);
    });
  }

  describe('while thousands of events wait for their first attempt,', () => {
    const flood = 10_000;
    /** Of another type, and to another webhook: the oldest. */
    const few = 3;
    const [usual, seldom] = ['credits.low', 'payment.completed'] as const;
    const [toMost, toFew] = [newId('wh', now), newId('wh', now)];

    function waiting(at: Date, type: string) {
      const _id = newId('evt', at.getTime());
      return {
        _id,
        userId,
        type,
        test: false,
        created: at,
        acceptedAt: at,
        body: Buffer.from(JSON.stringify({ id: _id, type, created: at.toISOString(), data: {} })),
        targets: [type === usual ? toMost : toFew],
        skipped: [],
        fanOut: 'pending',
        fanOutAt: new Date(now + 3_600_000),
        fanOutLeases: 1,
        idempotencyKey: _id,
        deliveryKey: Buffer.alloc(32),
      };
    }

    before(async () => {
      for (const [account, spread] of [
        ['usr_2', 1],
        // all but the few in one millisecond
        ['usr_3', 0],
      ] as const) {
        userId = account;
        const typeOf = (i: number) => (i < few ? seldom : usual);
        const timeOf = (i: number) => new Date(now - 60_000 + (i < few ? 0 : 1 + i * spread));
        const events = Array.from({ length: flood }, (_, i) => waiting(timeOf(i), typeOf(i)));
        await insert('events', events);
      }
    });
    after(() => {
      userId = 'usr_1';
    });

    const lists: [string, number][] = [
      ['deliveries?state=pending', 100],
      [`deliveries?type=${seldom}`, 2_100],
      [`deliveries?webhook_id=${toFew}`, 2_100],
      [`events?state=pending&type=${seldom}`, 2_100],
    ];
    for (const [path, bound] of lists) {
      it(`costs 15 commands and ${bound} keys of an index at most: GET /v1/${path.replace(toFew, 'WEBHOOK')}`, async () => {
        userId = 'usr_2';
        const cost = await costOf(`/v1/${path}&limit=20`);
        expect(cost.commands, 'commands').to.be.within(1, 15);
        expect(cost.keys, 'keys').to.be.at.most(bound);
        expect(cost.documents, 'documents').to.be.at.most(bound);
        for (const plan of cost.plans) expect(plan).to.match(/^(IXSCAN|IDHACK|EXPRESS|DISTINCT_SCAN|EOF)/);
      });
    }

    for (const account of ['usr_2', 'usr_3']) {
      for (const path of [
        `deliveries?type=${seldom}`,
        `deliveries?webhook_id=${toFew}`,
        `events?state=pending&type=${seldom}`,
      ]) {
        it(`finds the few matches within a few pages: ${path.replace(toFew, 'WEBHOOK')} of ${account}`, async () => {
          userId = account;
          const seen: string[] = [];
          let pages = 0;
          for (let after = '', hasMore = true; hasMore; pages += 1) {
            const page = await get(`/v1/${path}${after && `&after=${after}`}`);
            seen.push(...page.data.map(({ id, event_id: eventId = id }: { id: string; event_id?: string }) => eventId));
            hasMore = page.has_more && pages < flood;
            if (hasMore) after = page.next_after ?? seen.at(-1);
          }
          expect(new Set(seen).size).to.equal(few);
          expect(seen).to.have.length(few);
          expect(pages).to.be.at.most(flood / 2_000 + 1);
        });
      }
    }
  });
});
