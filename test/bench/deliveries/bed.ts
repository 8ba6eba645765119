import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import mongoose from 'mongoose';
import { createModelGateway, type ModelGateway } from '../../../src/index.ts';
import { startEmbeddedMongo } from '../../../src/standalone/embedded-mongo.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import type { Arrival } from './receiver.ts';

const secret = 'the-secret-of-the-bench';

/** A gateway delivering in this process, a real mongod, and a receiver in a process of its own. */
export interface Bed {
  gateway: ModelGateway;
  /** Registers `count` webhooks of a user, each at a path of its own. */
  subscribe(userId: string, count: number): Promise<void>;
  /** Resolves with the arrivals once `count` of them have come. @throws when a signature is wrong, one comes twice, or none comes for 30 s */
  arrivals(count: number): Promise<readonly Arrival[]>;
  close(): Promise<void>;
}

export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

export async function openBed(): Promise<Bed> {
  const mongo = await startEmbeddedMongo({ temporary: true });
  const connection = await mongoose.createConnection(mongo.uri).asPromise();
  const gateway = await createModelGateway({ mongo: connection, secretKeys: [newSecretKey()], ...loopbackOptions });
  await gateway.start();

  const receiver = fork(fileURLToPath(new URL('./receiver.ts', import.meta.url)), [secret]);
  const [{ port }] = (await once(receiver, 'message')) as [{ port: number }];
  const waiting: Arrival[] = [];
  let arrived: () => void = () => {};
  receiver.on('message', (batch: Arrival[]) => {
    waiting.push(...batch);
    arrived();
  });

  return {
    gateway,
    async subscribe(userId, count) {
      for (let i = 0; i < count; i += 1) {
        const url = `http://127.0.0.1:${port}/${userId}/${i}`;
        await gateway.webhooks.create(userId, { url, events: ['credits.low'], secret });
      }
    },
    async arrivals(count) {
      while (waiting.length < count) {
        await new Promise<void>((resolve, reject) => {
          const late = setTimeout(() => reject(new Error(`${waiting.length} of ${count} deliveries came`)), 30_000);
          arrived = () => {
            clearTimeout(late);
            resolve();
          };
        });
      }
      const taken = waiting.splice(0);
      if (taken.some(({ signed }) => !signed)) throw new Error('a signature was wrong');
      if (new Set(taken.map(({ id, path }) => `${id} ${path}`)).size !== count)
        throw new Error('a delivery came twice');
      return taken;
    },
    async close() {
      receiver.disconnect();
      await gateway.close();
      await connection.close();
      await mongo.stop();
    },
  };
}
