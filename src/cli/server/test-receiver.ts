import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { verifySignature } from '../../receiver/index.ts';
import { printable, printableLines } from '../terminal/text.ts';
import { type RunningServer, startServer } from './http-server.ts';

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** What deliveries with a good signature are answered with. */
  readonly status: number;
  /** Milliseconds before the answer. */
  readonly delay: number;
}

/**
 * As the package's receiver answers (docs/receiving.md, "Verify a delivery"): 401 for a bad signature, an `error` field with every
 * failure, `received: true` with success.
 */
function answerFor(isValid: boolean, wanted: number): { status: number; body: object } {
  if (!isValid) return { status: 401, body: { error: 'invalid signature' } };
  if (wanted >= 200 && wanted < 300) return { status: wanted, body: { received: true } };
  return { status: wanted, body: { error: `this receiver was told to answer ${wanted}` } };
}

function parse(body: Buffer): { id?: unknown; type?: unknown } | undefined {
  try {
    const value = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A delivery in lines: time, type, whether its signature is valid, and the response; then the event. */
function describe(body: Buffer, isValid: boolean, status: number, times: number): string {
  const event = parse(body);
  const again = times > 1 ? `  (time ${times})` : '';
  const signature = isValid ? 'signature valid' : 'SIGNATURE INVALID';
  const what = event ? printable(`${String(event.type)}  ${String(event.id)}`) : 'not an event';
  const text = event ? JSON.stringify(event, null, 2) : body.toString();
  const lines = printableLines(text).join('\n');
  return `${new Date().toISOString()}  ${what}  ${signature}  answered ${status}${again}\n${lines}`;
}

/**
 * A receiver to try webhooks with: checks each delivery's signature over the raw body, answers as its options say, prints it.
 * @param print given a delivery in a few lines
 */
export async function listen(options: ListenOptions, print: (text: string) => void): Promise<RunningServer> {
  const receivedCounts = new Map<string, number>();

  async function receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await buffer(req);
    const header = req.headers['x-service-signature'];
    const isValid = verifySignature(body, header?.toString(), options.secret);
    const id = String(parse(body)?.id);
    const times = (receivedCounts.get(id) ?? 0) + 1;
    receivedCounts.set(id, times);
    await sleep(options.delay);
    const { status, body: answer } = answerFor(isValid, options.status);
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    print(describe(body, isValid, status, times));
  }

  return startServer((req, res) => {
    // a sender that disconnects half-way has delivered nothing
    receive(req, res).catch(() => res.destroy());
  }, options);
}
