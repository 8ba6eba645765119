import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { shownHeaders, signatureHeaders } from '../../../deliveries/send.ts';
import { readVersion } from '../../../version.ts';
import { dataOf, type Schemas } from '../../client/api.ts';
import type { CommandContext } from '../../client/context.ts';
import { retryWhileUnavailable } from '../../client/retry-while-unavailable.ts';
import { wrongUse } from '../../terminal/command-failure.ts';
import { localTime, spanOf } from '../../terminal/moments.ts';
import { printable, toJson } from '../../terminal/printable.ts';
import { followEvents } from './follow-events.ts';

type PastEvent = Schemas['PastEvent'];

interface ForwardOptions {
  readonly forwardTo: string;
  /** @default a new one, which is printed */
  readonly secret?: string;
  /** @default all */
  readonly type?: readonly string[];
}

/** What came of one event. */
interface Forwarded {
  readonly event_id: string;
  readonly type: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number;
}

/** How often to look for new events. Milliseconds. */
const interval = 1_000;
/** How long the receiver may take, as for a delivery. Milliseconds. */
const timeout = 30_000;
/** The most requests at once. */
const maxInFlight = 20;

/** Also takes an address without `http://`, such as `localhost:3000/hook`. @throws CommandFailure */
function readTarget(text: string): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (/^https?:/i.test(url) && URL.canParse(url)) return url;
  throw wrongUse(`--forward-to must be an http or https URL such as http://localhost:3000/hook, not '${text}'.`);
}

/** The event as a delivery of it is sent. */
function toBody({ id, type, created, data }: PastEvent): string {
  return JSON.stringify({ id, type, created, data });
}

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  if (name === 'TimeoutError') return `no answer within ${timeout / 1_000} s`;
  return cause?.code ?? cause?.message ?? message;
}

/** Sends one event, signed as its deliveries are. Never rejects. */
async function send(event: PastEvent, target: string, secret: string, stop: AbortSignal): Promise<Forwarded> {
  const body = toBody(event);
  const startedAt = new Date();
  const stamp = { eventId: event.id, startedAt };
  const about = { event_id: event.id, type: event.type };
  const headers = {
    ...shownHeaders({ ...stamp, test: event.test, userAgent: `express-model-gateway/${readVersion()}` }),
    ...signatureHeaders({ ...stamp, secrets: { service: secret, standard: [secret] } }, body),
  };
  const took = () => Date.now() - startedAt.getTime();
  try {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(timeout)]);
    const response = await fetch(target, { method: 'POST', headers, body, redirect: 'manual', signal });
    await response.body?.cancel();
    return { ...about, status: response.status, error: null, duration_ms: took() };
  } catch (error) {
    return { ...about, status: null, error: reasonOf(error), duration_ms: took() };
  }
}

function lineOf(
  { event_id: id, type, status, error, duration_ms: ms }: Forwarded,
  { terminal }: CommandContext,
): string {
  const isGood = status !== null && status >= 200 && status < 300;
  const time = terminal.paint('dim', localTime(new Date(terminal.now()).toISOString()).slice(11));
  const result = terminal.paint(
    isGood ? 'green' : 'red',
    status === null ? `failed: ${printable(error ?? '')}` : `${status}`,
  );
  return [time, printable(type), id, result, spanOf(ms)].join('  ');
}

/** Sends an account's new events to an address, until Ctrl-C. */
export async function forward(context: CommandContext, options: ForwardOptions): Promise<void> {
  const { api, terminal, json } = context;
  const target = readTarget(options.forwardTo);
  const secret = options.secret ?? `whsec_${randomBytes(32).toString('base64')}`;
  const interrupted = terminal.interruption();
  const events = followEvents((query) => dataOf(api.GET('/v1/events', { params: { query } })));
  const nextEvents = retryWhileUnavailable(() => events.next(), terminal);
  const inFlight = new Set<Promise<void>>();

  async function pass(event: PastEvent): Promise<void> {
    const result = await send(event, target, secret, interrupted);
    if (!interrupted.aborted) terminal.print(json ? toJson(result) : lineOf(result, context));
  }

  await nextEvents();
  terminal.printNote(`Forwarding new events to ${target}, until Ctrl-C.`);
  if (options.secret === undefined) terminal.printNote(`They are signed with the secret ${secret}`);
  while (!interrupted.aborted) {
    for (const event of await nextEvents()) {
      if (options.type && !options.type.includes(event.type)) continue;
      if (inFlight.size >= maxInFlight) await Promise.race(inFlight);
      const passing: Promise<void> = pass(event).finally(() => inFlight.delete(passing));
      inFlight.add(passing);
    }
    await sleep(interval, undefined, { signal: interrupted }).catch(() => {});
  }
  await Promise.all(inFlight);
}
