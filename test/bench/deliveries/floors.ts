import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { now } from './setup.ts';

// What the database takes by itself, from a process that does nothing else: nobody who asks it can be faster.

async function timed(call: () => Promise<unknown>): Promise<number> {
  const started = now();
  await call();
  return now() - started;
}

/** As long as the document of an event, and as durable. */
export async function insert(connection: Connection): Promise<void> {
  const document = { _id: randomUUID() as string, body: 'x'.repeat(500) };
  await connection.collection<{ _id: string }>('bench_floor').insertOne(document, { writeConcern: { w: 'majority' } });
}

export async function ping(connection: Connection): Promise<void> {
  await connection.db?.admin().ping();
}

/** Inserts a second, so many at a time. */
export async function insertRate(connection: Connection, count: number, atOnce: number): Promise<number> {
  let left = count;
  async function inserter(): Promise<void> {
    while (left-- > 0) await insert(connection);
  }
  const ms = await timed(() => Promise.all(Array.from({ length: atOnce }, inserter)));
  return (count * 1_000) / ms;
}

/** Milliseconds of each of so many calls, at even distances. */
export async function evenly(call: () => Promise<void>, count: number, perSecond: number): Promise<number[]> {
  const started = now();
  const times: Promise<number>[] = [];
  for (let i = 0; i < count; i += 1) {
    await sleep(Math.max(0, started + (i * 1_000) / perSecond - now()));
    times.push(timed(call));
  }
  return Promise.all(times);
}
