import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import OpenAI from 'openai';
import { verifySignature } from '../../src/receiver/index.ts';
import { startReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, startGateway, type TestOptions } from './gateway.ts';
import { until } from './until.ts';
import { json, ScriptedUpstream } from './upstream.ts';

/** An event as a webhook got it, its signature checked. */
interface DeliveredEvent {
  readonly id: string;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the data it asks for
  readonly data: any;
}

/** A webhook of the account, and what it has been sent. */
export interface Inbox {
  /** Resolves when so many events have come, in the order of their ids, and a moment later no more. */
  exactly(count: number): Promise<readonly DeliveredEvent[]>;
}

/** What a customer has: a gateway, a key, the official client, and webhooks that listen. */
export interface LiveAccount {
  readonly live: LiveGateway;
  readonly upstream: ScriptedUpstream;
  /** Without retries of its own. */
  readonly client: OpenAI;
  /** Registers a webhook for these types. */
  subscribe(...types: readonly string[]): Promise<Inbox>;
  /** Has the windows of refused calls be long over, by the database's clock, once so many calls are counted in them. */
  endLimitWindows(refused: number): Promise<void>;
  close(): Promise<void>;
}

const secret = 'the secret of a receiver';

function toEvent({ headers, body }: { headers: NodeJS.Dict<string | string[]>; body: Buffer }): DeliveredEvent {
  expect(verifySignature(body, headers['x-service-signature']?.toString(), secret), 'signature').to.equal(true);
  return JSON.parse(body.toString());
}

/**
 * Starts a gateway over an upstream that answers every call alike.
 * @param usage what the upstream says each call has used
 */
export async function startAccount(usage: object, options: TestOptions): Promise<LiveAccount> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = json(200, { choices: [{}], usage });
  const live = await startGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }], ...options });
  const receivers: Awaited<ReturnType<typeof startReceiver>>[] = [];
  return {
    live,
    upstream,
    client: new OpenAI({ baseURL: `${live.url}/v1`, apiKey: live.key, maxRetries: 0 }),
    async subscribe(...events) {
      const receiver = await startReceiver(200);
      receivers.push(receiver);
      const { status } = await live.call('POST', '/v1/webhooks', { url: receiver.url, events, secret });
      expect(status).to.equal(201);
      return {
        async exactly(count) {
          await receiver.count(count);
          // shows that nothing more happens
          await sleep(200);
          const delivered = receiver.received.map(toEvent);
          expect(delivered).to.have.length(count);
          return delivered.sort((a, b) => (a.id < b.id ? -1 : 1));
        },
      };
    },
    async endLimitWindows(refused) {
      const windows = live.connection?.collection('gateway_exceeded');
      if (!windows) throw new Error('its database is not its own');
      await until(async () => {
        const counts = (await windows.find({ state: 'open' }).toArray()).flatMap((open) =>
          Object.values<number>(open.counts),
        );
        return counts.reduce((sum, count) => sum + count, 0) === refused;
      });
      const earlier = (date: string) => ({ $subtract: [date, 3_600_000] });
      const moved = { windowStart: earlier('$windowStart'), windowEnd: earlier('$windowEnd') };
      await windows.updateMany({ state: 'open' }, [{ $set: moved }]);
    },
    async close() {
      await live.close();
      await Promise.all(receivers.map((receiver) => receiver.stop()));
      await upstream.close();
    },
  };
}
