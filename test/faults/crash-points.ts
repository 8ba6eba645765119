import { subscribe } from 'node:diagnostics_channel';
import type { Connection } from 'mongoose';

/** Where a worker can be made to die. */
export const crashPoints = [
  'publish',
  'fan-out',
  'commit',
  'after commit',
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
  readonly commitTransaction?: 1;
  readonly documents?: readonly { readonly lease?: unknown }[];
  readonly updates?: readonly { readonly u: unknown }[];
}

function setBy(command: Command): Readonly<Record<string, unknown>> {
  const update = command.updates?.[0]?.u;
  return (Array.isArray(update) ? update[0]?.$set : undefined) ?? {};
}

const stores = ({ insert }: Command) => insert === 'gateway_events';
const fansOut = ({ insert }: Command) => insert === 'gateway_deliveries';
/** An event and its first deliveries are there from here on. */
const commits = ({ commitTransaction }: Command) => commitTransaction !== undefined;
const changes = (command: Command, field: string) =>
  command.update === 'gateway_deliveries' && field in setBy(command) && setBy(command)[field] !== null;
/** An attempt is claimed, or a delivery born with its claim. */
const claims = (command: Command) =>
  changes(command, 'lease') || (fansOut(command) && command.documents?.some(({ lease }) => lease) === true);
const finishes = (command: Command) => changes(command, 'attempts');

/** The command of the driver at which each point lies; `after 2xx` lies outside the database. */
const commands: Readonly<Record<Exclude<CrashPoint, 'after 2xx'>, readonly [Phase, (command: Command) => boolean]>> = {
  publish: ['succeeded', stores],
  'fan-out': ['started', fansOut],
  commit: ['started', commits],
  'after commit': ['succeeded', commits],
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
