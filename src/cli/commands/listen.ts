import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { shownHeaders, signatureHeaders } from '../../deliveries/signature.ts';
import { duration, wholeNumber } from '../../options/kinds.ts';
import { readVersion } from '../../version.ts';
import { copyProblem } from '../../webhooks/pasted-secret.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import { type CommandContext, createContext, type GatewayOptions, throughApi } from '../client/api-command.ts';
import { several, take } from '../client/flags.ts';
import { followList, retryWhileUnavailable } from '../client/pages.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { type Terminal, untilSignal } from '../terminal/terminal.ts';
import { localTime, printable, spanOf, toJson } from '../terminal/text.ts';

interface Options extends GatewayOptions {
  readonly host: string;
  readonly port?: number;
  readonly secret?: string;
  readonly forwardTo?: string;
  readonly type?: readonly string[];
  readonly status: number;
  readonly delay: number;
}

const help = `
Examples:
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --status 500    # see retries
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --delay 31s     # see time-outs
  $ express-model-gateway listen --forward-to http://localhost:3000/hook                   # needs no webhook
`;

export function listenCommand(terminal: Terminal): Command {
  const command = new Command('listen')
    .description("receive webhooks, verify their signatures and print them; or forward an account's events")
    .option('--port <port>', 'the port to listen on; 0 takes a free one', take(wholeNumber(0, 65_535)))
    .option(
      '--secret <secret>',
      "the webhook's secret; with --forward-to a new one, which is printed, when it is left out",
      webhookSecret,
    )
    .option('--status <code>', 'what to answer good deliveries with', take(wholeNumber(200, 599)), 200)
    .option(
      '--delay <duration>',
      'how long to wait before answering',
      take(duration(0, hour, 'a duration such as 2s')),
      0,
    )
    .option('--host <host>', 'the address to listen on', '127.0.0.1')
    .option('--forward-to <url>', "pass on your account's new events, signed as deliveries are, while this runs")
    .option('--type <types>', 'with --forward-to: only these types, separated by commas', several)
    .addHelpText('after', help)
    .action(async ({ forwardTo, ...options }: Options) => {
      if (forwardTo === undefined) return receive(options);
      await forward(createContext(terminal, options), forwardTo, options);
    });
  return throughApi(command);
}

const hour = 3_600_000;

/**
 * @throws CommandFailure for a secret that no webhook has: no signature would be right with it. It is not commander's error,
 * which would repeat the secret
 */
function webhookSecret(text: string): string {
  const problem = text === '' ? 'is empty: is a variable unset?' : copyProblem(text);
  if (problem) throw wrongUse(`--secret: it ${problem}`);
  return text;
}

async function receive({ port, secret, ...options }: Options): Promise<void> {
  if (port === undefined || secret === undefined) {
    throw wrongUse('Give --port and --secret to receive webhooks here, or --forward-to to pass events on.');
  }
  const parent = process.ppid;
  const { listen } = await import('../server/test-receiver.ts');
  const server = await listen({ ...options, port, secret }, (text) => console.log(text));
  console.log(`Listening on http://${options.host}:${server.port}`);
  await untilSignal(parent);
  await server.close();
}

type PastEvent = Schemas['PastEvent'];

/** How often to look for new events. Milliseconds. */
const interval = 1_000;
/** How long the receiver may take, as for a delivery. Milliseconds. */
const timeout = 30_000;
const maxInFlight = 20;

/** Sends an account's new events to an address, until Ctrl-C. */
async function forward(context: CommandContext, forwardTo: string, options: Omit<Options, 'forwardTo'>): Promise<void> {
  const { api, terminal, json } = context;
  const target = readTarget(forwardTo);
  const secret = options.secret ?? `whsec_${randomBytes(32).toString('base64')}`;
  const interrupted = terminal.interruption();
  const events = followList({
    list: (query) => dataFrom(api.GET('/v1/events', { params: { query } })),
    createdAt: (event: PastEvent) => event.created,
    past: 0,
  });
  const nextEvents = retryWhileUnavailable(() => events.changes(), terminal);
  const inFlight = new Set<Promise<void>>();

  async function pass(event: PastEvent): Promise<void> {
    const result = await send(event, target, secret, interrupted);
    if (!interrupted.aborted) terminal.print(json ? toJson(result) : lineOf(result, terminal));
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

/** Also takes an address without `http://`, such as `localhost:3000/hook`. @throws CommandFailure */
function readTarget(text: string): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (/^https?:/i.test(url) && URL.canParse(url)) return url;
  throw wrongUse(`--forward-to must be an http or https URL such as http://localhost:3000/hook, not '${text}'.`);
}

/** Sends one event, signed as its deliveries are. @returns what came of it; never rejects */
async function send(event: PastEvent, target: string, secret: string, stop: AbortSignal) {
  const { id, type, created, data } = event;
  // as a delivery of it is sent
  const body = JSON.stringify({ id, type, created, data });
  const startedAt = new Date();
  const stamp = { eventId: id, startedAt };
  const about = { event_id: id, type };
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

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  if (name === 'TimeoutError') return `no answer within ${timeout / 1_000} s`;
  return cause?.code ?? cause?.message ?? message;
}

type Forwarded = Awaited<ReturnType<typeof send>>;

function lineOf({ event_id: id, type, status, error, duration_ms: ms }: Forwarded, { paint, now }: Terminal): string {
  const isGood = status !== null && status >= 200 && status < 300;
  const time = paint('dim', localTime(now()).slice(11));
  const result = paint(isGood ? 'green' : 'red', status === null ? `failed: ${printable(error ?? '')}` : `${status}`);
  return [time, printable(type), id, result, spanOf(ms)].join('  ');
}
