import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose from 'mongoose';
import { connectionTimes } from '../../src/connection.ts';
import { createModelGateway, type ModelGateway, scopes } from '../../src/index.ts';
import { startReceiver } from '../deliveries/receiver.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../support/breakable-database.ts';
import { listen, loopbackOptions, newSecretKey } from '../support/gateway.ts';
import type { Direction, LinkKind } from '../support/tcp-proxy.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const payment = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };
/** Milliseconds. */
const retryDelay = 1_000;
/** 5 s for requests and 10 s for deliveries, and half as much again for a machine that is busy. */
const requestBar = 7_500;
const deliveryBar = 15_000;

type Fault = readonly [name: string, direction: Direction | 'both', kind: LinkKind];
const faults: readonly Fault[] = [
  ['all of them', 'both', 'all'],
  ['all but the monitor’s', 'both', 'pool'],
  ['all but the monitor’s, on the way to the database', 'up', 'pool'],
  ['all but the monitor’s, on the way back', 'down', 'pool'],
  ['the monitor’s alone', 'both', 'monitors'],
];

describe('open connections that swallow what they carry, while new ones pass', function () {
  this.timeout(90_000);
  let database: BreakableDatabase;
  let upstream: ScriptedUpstream;
  const ends: (() => Promise<unknown>)[] = [];

  before(async () => {
    database = await startBreakableDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 } });
  });
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });
  after(async () => {
    await upstream?.close();
    await database?.stop();
  });

  /** A gateway under load: requests, model calls, publications by its host, first attempts and retries. */
  async function startLoad(collectionPrefix: string, mongo: string | mongoose.Connection) {
    // each delivery fails once
    const seen = new Map<string, number[]>();
    const receiver = await startReceiver();
    receiver.answers((res) => {
      const id = String(res.req.headers['webhook-id']);
      const times = seen.get(id) ?? [];
      seen.set(id, [...times, performance.now()]);
      res.writeHead(times.length === 0 ? 500 : 200).end();
    });
    ends.push(() => receiver.stop());
    const gateway: ModelGateway = await createModelGateway({
      ...loopbackOptions,
      mongo,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'u', baseUrl: upstream.baseUrl }],
      retryDelays: [retryDelay],
      readRateLimit: 100_000,
      collectionPrefix,
    });
    ends.push(gateway.close);
    await gateway.start();
    const app = await listen(express().use(gateway.router));
    ends.push(app.close);
    const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
    await gateway.webhooks.create('usr_1', { url: receiver.url, events: ['payment.completed'] });

    let isOver = false;
    const failures: unknown[] = [];
    const took = { requests: [] as number[], models: [] as number[], publish: [] as number[] };
    const statuses = new Map<string, number>();
    const accepted = new Map<string, number>();
    const under = new Set<Promise<unknown>>();

    async function call(kind: 'requests' | 'models', path: string, body?: object): Promise<void> {
      const startedAt = performance.now();
      const response = await fetch(app.url + path, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      took[kind].push(performance.now() - startedAt);
      const name = `${kind} ${response.status}`;
      statuses.set(name, (statuses.get(name) ?? 0) + 1);
      const isAnswered = response.status === 503 ? response.headers.get('retry-after') === '1' : response.ok;
      if (!isAnswered || (kind === 'models' && !response.ok)) failures.push(`${name} ${text}`);
    }

    async function publish(): Promise<void> {
      const idempotencyKey = Math.random().toString(36);
      const input = { type: 'payment.completed', userId: 'usr_1', data: payment };
      for (;;) {
        const startedAt = performance.now();
        try {
          const { id } = await gateway.publish(input, { idempotencyKey });
          accepted.set(id, performance.now());
          took.publish.push(performance.now() - startedAt);
          return;
        } catch (error) {
          took.publish.push(performance.now() - startedAt);
          const { code } = error as { code?: string };
          statuses.set(`publish ${code}`, (statuses.get(`publish ${code}`) ?? 0) + 1);
          if (code !== 'publish_unconfirmed' && code !== 'database_unavailable') throw error;
          await sleep(100);
        }
      }
    }

    async function every(ms: number, act: () => Promise<void>): Promise<void> {
      while (!isOver) {
        const acting: Promise<unknown> = act()
          .catch((error) => failures.push(error))
          .finally(() => under.delete(acting));
        under.add(acting);
        await sleep(ms);
      }
    }

    const loops = [
      every(150, publish),
      every(300, () => call('requests', '/v1/webhooks')),
      every(300, () => call('requests', '/v1/deliveries')),
      every(300, () => call('models', '/v1/chat/completions', question)),
    ];

    /** Ends the load; resolves when all that was begun has ended and arrived twice. */
    async function finish() {
      isOver = true;
      await Promise.all(loops);
      while (under.size > 0) await Promise.all(under);
      const deadline = performance.now() + 60_000;
      while ([...accepted.keys()].some((id) => (seen.get(id)?.length ?? 0) < 2)) {
        if (performance.now() > deadline) break;
        await sleep(50);
      }
      const first = [...accepted].map(([id, at]) => (seen.get(id)?.[0] ?? Number.POSITIVE_INFINITY) - at);
      const retries = [...accepted.keys()].map((id) => {
        const [one = 0, two = Number.POSITIVE_INFINITY] = seen.get(id) ?? [];
        return two - one - retryDelay;
      });
      const most = (times: readonly number[]) => Math.round(Math.max(...times));
      return {
        failures,
        statuses: Object.fromEntries(statuses),
        accepted: accepted.size,
        most: {
          request: most(took.requests),
          model: most(took.models),
          publish: most(took.publish),
          first: most(first),
          retry: most(retries),
        },
      };
    }

    return { gateway, finish };
  }

  for (const [i, [name, direction, kind]] of faults.entries())
    it(`are thrown away in time: ${name}`, async () => {
      const host = await mongoose.createConnection(database.uri, connectionTimes).asPromise();
      ends.push(() => host.close());
      const loads = await Promise.all([startLoad(`own${i}_`, database.uri), startLoad(`host${i}_`, host)]);
      await sleep(1_500);
      expect(database.proxy.swallowOpen(direction, kind)).to.be.above(0);
      await sleep(10_000);
      const results = await Promise.all(loads.map(({ finish }) => finish()));
      for (const { most, failures } of results) {
        expect(failures).to.deep.equal([]);
        expect(most.request).to.be.below(requestBar);
        expect(most.model).to.be.below(requestBar);
        expect(most.publish).to.be.below(requestBar);
        expect(most.first).to.be.below(deliveryBar);
        expect(most.retry).to.be.below(deliveryBar);
      }
    });

  for (const [name, isHealed, bar] of [
    ['new ones pass', true, 20_000],
    ['new ones swallow too', false, 45_000],
  ] as const)
    it(`a gateway closes in the time that it states: ${name}`, async () => {
      const gateway = await createModelGateway({
        ...loopbackOptions,
        mongo: database.uri,
        secretKeys: [newSecretKey()],
        credits: { prices: { '*': { input: 1_000 } }, initialBalance: 1 },
        collectionPrefix: isHealed ? 'healed_' : 'silent_',
      });
      ends.push(async () => database.proxy.pass(), gateway.close);
      await gateway.start();
      await gateway.keys.create({ userId: 'usr_1' });
      if (isHealed) expect(database.proxy.swallowOpen('both', 'pool')).to.be.above(0);
      else database.proxy.swallow('both', 'pool');
      const publishing = gateway.publish({ type: 'payment.completed', userId: 'usr_1', data: payment }).catch(() => {});
      const startedAt = performance.now();
      await gateway.close();
      expect(performance.now() - startedAt).to.be.below(bar);
      await publishing;
    });
});
