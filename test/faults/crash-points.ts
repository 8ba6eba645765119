import { subscribe } from 'node:diagnostics_channel';
import type { Connection } from 'mongoose';

/** Where a worker can be made to die. */
export const crashPoints = [
  'publish',
  'fan-out',
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

/** The command of the driver at which each point lies; `after 2xx` lies outside the database. */
const commands: Readonly<Record<Exclude<CrashPoint, 'after 2xx'>, readonly [Phase, string, string]>> = {
  publish: ['succeeded', 'findAndModify', 'gateway_events'],
  'fan-out': ['started', 'insert', 'gateway_deliveries'],
  claim: ['started', 'findAndModify', 'gateway_deliveries'],
  'before send': ['succeeded', 'findAndModify', 'gateway_deliveries'],
  finish: ['started', 'update', 'gateway_deliveries'],
  'after finish': ['succeeded', 'update', 'gateway_deliveries'],
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
  const [phase, commandName, collection] = commands[point];
  const mine = new Set<number>();
  const client = connection.getClient();
  client.on('commandStarted', (event) => {
    if (event.commandName !== commandName || event.command[commandName] !== collection) return;
    mine.add(event.requestId);
    if (phase === 'started') passed();
  });
  client.on('commandSucceeded', (event) => {
    if (mine.delete(event.requestId) && phase === 'succeeded') passed();
  });
}
