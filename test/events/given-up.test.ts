import { expect } from 'chai';
import type { ClientSession, Connection } from 'mongoose';
import type { ModelGateway } from '../../src/index.ts';
import { watchedDatabase } from '../support/commands.ts';
import { createGateway } from '../support/gateway.ts';
import { payment, rejection } from './harness.ts';

describe('A publication whose subscriber lookup takes too long', () => {
  const appName = `given-up-${process.pid}`;
  /** Longer than a publication waits, even if the process stands still for a second. Milliseconds. */
  const blockTimeMS = 5_000;
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let connection: Connection;
  let gateway: ModelGateway;

  before(async () => {
    database = await watchedDatabase({ appName });
    ({ connection } = database);
    gateway = await createGateway({ mongo: connection });
  });
  after(async () => {
    await gateway.close();
    await database.drop();
  });

  /** Makes the next look-up slow; resolves when it has been answered. */
  async function blockLookUp(): Promise<{ readonly answered: Promise<void> }> {
    const data = { appName, failCommands: ['find'], blockConnection: true, blockTimeMS };
    await connection
      .getClient()
      .db('admin')
      .command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data });
    const answered = new Promise<void>((resolve) => {
      connection.getClient().on('commandSucceeded', ({ commandName, duration }) => {
        if (commandName === 'find' && duration >= blockTimeMS) resolve();
      });
    });
    return { answered };
  }

  const publications: [string, () => Promise<ClientSession | undefined>][] = [
    ['without a session', async () => undefined],
    ['with a session', async () => connection.startSession()],
  ];
  for (const [how, begin] of publications) {
    it(`is refused and never stored (${how}), since a retry without its key would make a second event`, async () => {
      const userId = `usr_${how}`;
      const session = await begin();
      const { answered } = await blockLookUp();
      const refused = await rejection(gateway.publish({ ...payment, userId }, session && { session }));
      expect(refused).to.deep.include({ code: 'database_unavailable' });
      await answered;
      const again = await gateway.publish({ ...payment, userId }, session && { session });
      const stored = await connection.collection('gateway_events').find({ userId }).toArray();
      expect(stored.map(({ _id }) => String(_id))).to.deep.equal([again.id]);
      await session?.endSession();
    });
  }
});
