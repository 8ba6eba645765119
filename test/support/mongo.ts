import { randomBytes } from 'node:crypto';
import mongoose, { type Connection } from 'mongoose';

/** The server every test uses: one replica set, started once; each suite gets a database of its own. */
let serverUri = '';
let stop: () => Promise<void> = async () => {};

export const mochaHooks = {
  async beforeAll(this: Mocha.Context): Promise<void> {
    this.timeout(180_000);
    if (process.env.TEST_MONGODB_URI) {
      serverUri = process.env.TEST_MONGODB_URI;
      return;
    }
    const { startEmbeddedMongo } = await import('../../src/standalone/embedded-mongo.ts');
    const embedded = await startEmbeddedMongo({
      temporary: true,
      testCommands: true,
      log: (line) => console.error(line),
    });
    serverUri = embedded.uri;
    stop = embedded.stop;
  },
  async afterAll(): Promise<void> {
    await stop();
  },
};

/** The URI of a database that nobody else uses. */
export function freshUri(): string {
  const url = new URL(serverUri);
  url.pathname = `/t_${randomBytes(6).toString('hex')}`;
  return url.href;
}

/** A connection to a fresh database, and what removes both. */
export async function freshDatabase(): Promise<{ connection: Connection; uri: string; drop: () => Promise<void> }> {
  const uri = freshUri();
  const connection = await mongoose.createConnection(uri).asPromise();
  return {
    connection,
    uri,
    async drop() {
      await connection.dropDatabase();
      await connection.close();
    },
  };
}
