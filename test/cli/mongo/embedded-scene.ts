import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { memoryFolder } from '../../support/database/memory-folder.ts';

/** A data folder for each test of a suite, and the embedded databases that run on it until the test is over. */
export function useEmbeddedMongo() {
  const running: EmbeddedMongo[] = [];
  const scene = {
    dataDir: '',
    async start(options: Partial<Parameters<typeof startEmbeddedMongo>[0]> = {}): Promise<EmbeddedMongo> {
      const mongo = await startEmbeddedMongo({ dataDir: scene.dataDir, ...options });
      running.push(mongo);
      return mongo;
    },
  };

  beforeEach(async () => {
    scene.dataDir = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'embedded-mongo-test-'));
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((mongo) => mongo.stop()));
    await rm(scene.dataDir, { recursive: true, force: true });
  });
  return scene;
}

/** Uses a client, and closes it. */
export async function withClient<T>(uri: string, use: (client: MongoClient) => Promise<T>): Promise<T> {
  const client = new MongoClient(uri);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
