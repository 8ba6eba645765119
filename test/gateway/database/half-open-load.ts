import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import type mongoose from 'mongoose';
import { scopes } from '../../../src/index.ts';
import { startReceiver } from '../../deliveries/receiver.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
export const payment = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };
/** Each call uses one token. */
const tokenPrice = 0.000_001;
const initialBalance = 1;
const credits = { prices: { '*': { input: 1 } }, initialBalance };
/** Milliseconds. */
const retryDelay = 1_000;
/** Accounts whose first call here comes during the load. */
const newcomers = 30;
/** How long after the load what it left behind is waited for. Milliseconds. */
const maxWait = 20_000;

/** What is under load, each with a time that is measured. */
const kinds = ['request', 'write', 'model', 'firstModel', 'attempt', 'publish', 'first', 'retry', 'charge'] as const;
type Kind = (typeof kinds)[number];
type RequestKind = Extract<Kind, 'request' | 'write' | 'model' | 'firstModel' | 'attempt'>;

interface Request {
  readonly kind: RequestKind;
  readonly path: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string;
}

export interface Load {
  /** Ends the load; resolves when all that was begun has ended, arrived twice, and been charged. */
  finish(): Promise<LoadResult>;
  /** Closes everything. */
  close(): Promise<void>;
}

export interface LoadResult {
  readonly failures: readonly unknown[];
  readonly statuses: Readonly<Record<string, number>>;
  /** The longest of each. Milliseconds. */
  readonly longest: Readonly<Record<Kind, number>>;
}

async function startUpstream(): Promise<ScriptedUpstream> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 } });
  return upstream;
}

/** Answers each delivery 500 once. */
async function startFailingOnce(seen: Map<string, number[]>) {
  const receiver = await startReceiver();
  receiver.answers((res) => {
    const id = String(res.req.headers['webhook-id']);
    const times = seen.get(id) ?? [];
    seen.set(id, [...times, performance.now()]);
    res.writeHead(times.length === 0 ? 500 : 200).end();
  });
  return receiver;
}

/**
 * A gateway with credits under load: reads, writes in transactions, model calls of one account and of new ones, resends, test
 * events, publications by its host, first attempts and retries.
 */
export async function startLoad(collectionPrefix: string, mongo: string | mongoose.Connection): Promise<Load> {
  const seen = new Map<string, number[]>();
  const upstream = await startUpstream();
  const receiver = await startFailingOnce(seen);
  const gateway = await createGateway({
    mongo,
    upstreams: [{ name: 'u', baseUrl: upstream.baseUrl }],
    retryDelays: [retryDelay],
    limits: { readsPerMinute: 100_000, writesPerMinute: 100_000 },
    credits,
    collectionPrefix,
  });
  await gateway.start();
  const app = await listen(express().use(gateway.router));
  const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
  const newKeys = await Promise.all(
    Array.from({ length: newcomers }, async (_, i) => (await gateway.keys.create({ userId: `usr_new_${i}` })).key),
  );
  const webhook = await gateway.webhooks.create('usr_1', { url: receiver.url, events: ['payment.completed'] });
  const { id: sentOnce } = await gateway.publish({ type: 'payment.completed', userId: 'usr_1', data: payment });

  let isOver = false;
  let giveUpAt = Number.POSITIVE_INFINITY;
  let expectedBalance = initialBalance;
  const failures: unknown[] = [];
  const took = Object.fromEntries(kinds.map((kind) => [kind, [] as number[]])) as Record<Kind, number[]>;
  const statuses = new Map<string, number>();
  const accepted = new Map<string, number>();
  const underWay = new Set<Promise<unknown>>();

  function count(name: string): void {
    statuses.set(name, (statuses.get(name) ?? 0) + 1);
  }

  async function ask({ kind, path, body, headers, key: by = key }: Request): Promise<Response> {
    const startedAt = performance.now();
    const response = await fetch(app.url + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${by}`, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.clone().text();
    took[kind].push(performance.now() - startedAt);
    const { error } = response.ok ? {} : JSON.parse(text);
    const name = `${kind} ${path.split('?')[0]} ${response.status} ${error?.code ?? ''}`;
    count(name);
    // an account that is known here goes on
    const maySay = kind !== 'model' && response.status === 503 && response.headers.get('retry-after') === '1';
    if (!response.ok && !maySay && error?.code !== 'attempt_in_flight') failures.push(`${name} ${text}`);
    return response;
  }

  /** Again while the database is why it is not done. */
  async function askUntilDone(request: Request): Promise<boolean> {
    for (;;) {
      const { ok, status } = await ask(request);
      if (status !== 503) return ok;
      if (performance.now() > giveUpAt) throw new Error(`${request.path} is not done`);
      // as a client that tries again
      await sleep(100);
    }
  }

  async function callModel(): Promise<void> {
    const { ok } = await ask({ kind: 'model', path: '/v1/chat/completions', body: question });
    if (ok) expectedBalance -= tokenPrice;
  }

  async function callAsNewcomer(): Promise<void> {
    const newKey = newKeys.pop();
    if (newKey) await ask({ kind: 'firstModel', path: '/v1/chat/completions', body: question, key: newKey });
  }

  async function topUp(): Promise<void> {
    const headers = { 'idempotency-key': Math.random().toString(36) };
    const body = { user_id: 'usr_1', credits: 1 };
    if (await askUntilDone({ kind: 'write', path: '/v1/credits/top_ups', body, headers })) expectedBalance += 1;
  }

  async function pay(): Promise<void> {
    const paymentId = `pay_${Math.random().toString(36)}`;
    const body = { ...payment, status: 'completed', payment_id: paymentId };
    if (await askUntilDone({ kind: 'write', path: '/v1/payments', body })) expectedBalance += 1;
  }

  async function resend(): Promise<void> {
    const [delivery] = resendable.data;
    await ask({ kind: 'attempt', path: `/v1/deliveries/${delivery?.id}/resend`, body: {} });
  }

  async function test(): Promise<void> {
    await ask({ kind: 'attempt', path: `/v1/webhooks/${webhook.id}/test`, body: { type: 'payment.completed' } });
  }

  async function publish(): Promise<void> {
    const idempotencyKey = Math.random().toString(36);
    const input = { type: 'payment.completed' as const, userId: 'usr_1', data: payment };
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
        count(`publish ${code}`);
        if (code !== 'publish_unconfirmed' && code !== 'database_unavailable') throw error;
        // as a publisher that tries again
        await sleep(100);
      }
    }
  }

  async function every(ms: number, act: () => Promise<unknown>): Promise<void> {
    while (!isOver) {
      const acting: Promise<unknown> = act()
        .catch((error) => failures.push(error))
        .finally(() => underWay.delete(acting));
      underWay.add(acting);
      // sets the pace
      await sleep(ms);
    }
  }

  const resendable = (await (
    await fetch(`${app.url}/v1/deliveries?event_id=${sentOnce}`, { headers: { authorization: `Bearer ${key}` } })
  ).json()) as { data: { id: string }[] };
  // the account has something set aside here from now on
  await callModel();
  const loops = [
    every(600, publish),
    every(1_000, () => ask({ kind: 'request', path: '/v1/webhooks' })),
    every(1_000, () => ask({ kind: 'request', path: '/v1/deliveries' })),
    every(1_000, () => ask({ kind: 'request', path: '/v1/credits' })),
    every(600, callModel),
    every(600, callAsNewcomer),
    every(2_000, topUp),
    every(2_000, pay),
    every(1_000, resend),
    every(1_000, test),
  ];

  async function until(isSo: () => Promise<boolean> | boolean): Promise<void> {
    // looks again; whoever gives up says so in the result
    while (!(await isSo()) && performance.now() < giveUpAt) await sleep(50);
  }

  async function balance(): Promise<number> {
    return gateway.credits?.balance('usr_1').then(({ creditsRemaining }) => creditsRemaining) ?? Number.NaN;
  }

  return {
    async finish() {
      isOver = true;
      giveUpAt = performance.now() + maxWait;
      await Promise.all(loops);
      while (underWay.size > 0) await Promise.all(underWay);
      const endedAt = performance.now();
      const isCharged = async () => Math.abs((await balance()) - expectedBalance) < tokenPrice / 2;
      await until(isCharged);
      if (!(await isCharged())) failures.push(`the balance is ${await balance()}, not ${expectedBalance}`);
      took.charge.push(performance.now() - endedAt);
      await until(() => [...accepted.keys()].every((id) => (seen.get(id)?.length ?? 0) >= 2));
      for (const [id, at] of accepted) {
        const [one = Number.POSITIVE_INFINITY, two = Number.POSITIVE_INFINITY] = seen.get(id) ?? [];
        took.first.push(one - at);
        took.retry.push(two - one - retryDelay);
      }
      const longest = kinds.map((kind) => [kind, Math.round(Math.max(...took[kind]))]);
      return { failures, statuses: Object.fromEntries(statuses), longest: Object.fromEntries(longest) };
    },
    async close() {
      await app.close();
      await gateway.close();
      await receiver.stop();
      await upstream.close();
    },
  };
}
