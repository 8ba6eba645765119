import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Connection, mongo } from 'mongoose';

type MongoClient = mongo.MongoClient;
type CommandStartedEvent = mongo.CommandStartedEvent;
type CommandSucceededEvent = mongo.CommandSucceededEvent;

/** Where a worker can be made to die. */
export const crashPoints = [
  'publish',
  'after publish',
  'outcome',
  'after outcome',
  'store',
  'mark',
  'after mark',
  'claim',
  'before send',
  'after 2xx',
  'finish',
  'after finish',
] as const;

export type CrashPoint = (typeof crashPoints)[number];

/** Where it can also be made to stop: a first attempt has been sent, or a sweep takes events that somebody left. */
type StopPoint = CrashPoint | 'first attempt' | 'take';

/** Die, or stop until somebody wakes this process, when this has happened so many times. */
export interface Crash {
  readonly point: StopPoint;
  readonly after: number;
  /** @default SIGKILL */
  readonly signal?: 'SIGKILL' | 'SIGSTOP';
}

type Phase = 'started' | 'succeeded';

/** What of a command tells at which point it lies. */
interface Command {
  readonly insert?: string;
  readonly update?: string;
  readonly documents?: readonly {
    readonly _id: string;
    readonly lease?: unknown;
    readonly attempts?: readonly unknown[];
  }[];
  readonly updates?: readonly { readonly u: unknown; readonly upsert?: boolean }[];
}

function setBy(command: Command): Readonly<Record<string, unknown>> {
  const update = command.updates?.[0]?.u;
  const stage = Array.isArray(update) ? update[0] : update;
  return (stage as { readonly $set?: Readonly<Record<string, unknown>> } | undefined)?.$set ?? {};
}

const inserts = (collection: string) => (command: Command) => command.insert === `gateway_${collection}`;
const storesEvent = inserts('events');
const storesDeliveries = inserts('deliveries');
const sets = (collection: string, field: string) => (command: Command) =>
  command.update === `gateway_${collection}` && field in setBy(command) && setBy(command)[field] !== null;
/** The first write of a delivery that has its outcome. */
const storesOutcome = (command: Command) =>
  (storesDeliveries(command) && command.documents?.some(({ attempts }) => attempts?.length) === true) ||
  (command.update === 'gateway_deliveries' && command.updates?.[0]?.upsert === true);
const marks = sets('events', 'fanOut');
/** An attempt is claimed, or one that takes long is stored as claimed. */
const claims = (command: Command) =>
  sets('deliveries', 'lease')(command) ||
  (storesDeliveries(command) && command.documents?.some(({ lease }) => lease) === true);
const finishes = sets('deliveries', 'attempts');

/** The command of the driver at which each point lies that does not lie outside the database. */
const commands: Readonly<
  Record<Exclude<StopPoint, 'after 2xx' | 'first attempt'>, readonly [Phase, (command: Command) => boolean]>
> = {
  publish: ['started', storesEvent],
  'after publish': ['succeeded', storesEvent],
  outcome: ['started', storesOutcome],
  'after outcome': ['succeeded', storesOutcome],
  store: ['started', storesDeliveries],
  mark: ['started', marks],
  'after mark': ['succeeded', marks],
  claim: ['started', claims],
  'before send': ['succeeded', claims],
  finish: ['started', finishes],
  'after finish': ['succeeded', finishes],
  take: ['started', sets('events', 'fanOutToken')],
};

/** Calls back for each answer with 2xx that comes. */
function onSuccess(passed: () => void): () => void {
  const channel = 'undici:request:headers';
  const look = (message: unknown) => {
    const { statusCode } = (message as { response: { statusCode: number } }).response;
    if (statusCode >= 200 && statusCode < 300) passed();
  };
  subscribe(channel, look);
  return () => unsubscribe(channel, look);
}

/** Calls back for each request about an event that this process has published since, when it has been written. */
function onFirstAttempt(client: MongoClient, passed: () => void): () => void {
  const published = new Set<string>();
  const publish = ({ command }: CommandStartedEvent) => {
    if (storesEvent(command)) for (const { _id } of command.documents ?? []) published.add(_id);
  };
  const channel = 'undici:request:bodySent';
  const look = (message: unknown) => {
    const { headers } = (message as { request: { headers: readonly string[] } }).request;
    if (published.has(headers[headers.indexOf('webhook-id') + 1] ?? '')) passed();
  };
  client.on('commandStarted', publish);
  subscribe(channel, look);
  return () => {
    client.off('commandStarted', publish);
    unsubscribe(channel, look);
  };
}

function onCommand(
  client: MongoClient,
  [phase, isMeant]: readonly [Phase, (command: Command) => boolean],
  passed: () => void,
): () => void {
  const mine = new Set<number>();
  const started = ({ command, requestId }: CommandStartedEvent) => {
    if (!isMeant(command)) return;
    mine.add(requestId);
    if (phase === 'started') passed();
  };
  const succeeded = ({ requestId }: CommandSucceededEvent) => {
    if (mine.delete(requestId) && phase === 'succeeded') passed();
  };
  client.on('commandStarted', started).on('commandSucceeded', succeeded);
  return () => void client.off('commandStarted', started).off('commandSucceeded', succeeded);
}

/** Kills or stops this process at the point, without a chance to clean up. Returns what calls that off. */
export function armCrash(connection: Connection, { point, after, signal = 'SIGKILL' }: Crash): () => void {
  let left = after;
  const passed = () => {
    left -= 1;
    if (left === 0) process.kill(process.pid, signal);
  };

  if (point === 'after 2xx') return onSuccess(passed);
  const client = connection.getClient();
  return point === 'first attempt' ? onFirstAttempt(client, passed) : onCommand(client, commands[point], passed);
}
