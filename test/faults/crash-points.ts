import { subscribe } from 'node:diagnostics_channel';
import type { Connection } from 'mongoose';

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

/** Die when this has happened so many times. */
export interface Crash {
  readonly point: CrashPoint;
  readonly after: number;
}

type Phase = 'started' | 'succeeded';

/** What of a command tells at which point it lies. */
interface Command {
  readonly insert?: string;
  readonly update?: string;
  readonly documents?: readonly { readonly lease?: unknown; readonly attempts?: readonly unknown[] }[];
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

/** The command of the driver at which each point lies; `after 2xx` lies outside the database. */
const commands: Readonly<Record<Exclude<CrashPoint, 'after 2xx'>, readonly [Phase, (command: Command) => boolean]>> = {
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
};

/** Kills this process at the point, without a chance to clean up. */
export function armCrash(connection: Connection, { point, after }: Crash): void {
  let left = after;
  const passed = () => {
    left -= 1;
    if (left <= 0) process.kill(process.pid, 'SIGKILL');
  };

  if (point === 'after 2xx') {
    subscribe('undici:request:headers', (message) => {
      const { response } = message as { response: { statusCode: number } };
      if (response.statusCode >= 200 && response.statusCode < 300) passed();
    });
    return;
  }
  const [phase, isMeant] = commands[point];
  const mine = new Set<number>();
  const client = connection.getClient();
  client.on('commandStarted', (event) => {
    if (!isMeant(event.command)) return;
    mine.add(event.requestId);
    if (phase === 'started') passed();
  });
  client.on('commandSucceeded', (event) => {
    if (mine.delete(event.requestId) && phase === 'succeeded') passed();
  });
}
