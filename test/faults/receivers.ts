import { createHash, createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { listenOn } from '../support/listen.ts';
import type { Random } from './random.ts';

/** One request as the receiver saw it; times are milliseconds since 1970 by the suite's own clock. */
export interface Arrival {
  readonly webhook: string;
  readonly eventId: string;
  readonly at: number;
  /** When the answer was handed over. */
  answeredAt: number;
  readonly status: number;
  readonly signatureRight: boolean;
  readonly bodyHash: string;
}

/** What a receiver answers: always, at random, late or never with success. */
export const manners = ['good', 'flaky', 'slow', 'dead'] as const;
type Manner = (typeof manners)[number];

/** One server that plays all receivers, told apart by the path. */
export async function startReceivers(secret: string, random: Random) {
  const arrivals: Arrival[] = [];
  const answers: Record<Manner, () => { status: number; delay: number }> = {
    good: () => ({ status: 200, delay: 0 }),
    flaky: () => ({ status: random.pick([200, 200, 500, 503]), delay: random.below(10) }),
    slow: () => ({ status: 200, delay: 50 + random.below(200) }),
    dead: () => ({ status: 500, delay: 0 }),
  };

  const server = createServer(async (req, res) => {
    const at = Date.now();
    const webhook = (req.url ?? '').slice(1) as Manner;
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of req) chunks.push(chunk);
    } catch {
      // its worker was killed while it sent: no attempt has reached us
      return;
    }
    const body = Buffer.concat(chunks);
    const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    const { status, delay } = answers[webhook]();
    const arrival: Arrival = {
      webhook,
      eventId: String(JSON.parse(body.toString()).id),
      at,
      answeredAt: Number.POSITIVE_INFINITY,
      status,
      signatureRight:
        req.headers['x-service-signature'] === expected && req.headers['webhook-id'] === JSON.parse(body.toString()).id,
      bodyHash: createHash('sha256').update(body).digest('hex'),
    };
    arrivals.push(arrival);
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    arrival.answeredAt = Date.now();
    res.writeHead(status).end(webhook);
  });
  server.keepAliveTimeout = 30_000;
  const port = await listenOn(server);
  return {
    arrivals,
    url: (manner: Manner) => `http://127.0.0.1:${port}/${manner}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export type Receivers = Awaited<ReturnType<typeof startReceivers>>;
