import { once } from 'node:events';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { payment, rejection } from '../harness.ts';

/** Writes of events on their way at once. */
const atOnce = 2;

describe('A publication that waits too long for its turn to be written', function () {
  this.timeout(30_000);
  const appName = `no-turn-${process.pid}`;
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

  const events = () => connection.collection('gateway_events');

  async function slowInserts(blockTimeMS: number): Promise<void> {
    const namespace = `${connection.name}.gateway_events`;
    const data = { appName, namespace, failCommands: ['insert'], blockConnection: true, blockTimeMS };
    const command = { configureFailPoint: 'failCommand', mode: { times: atOnce }, data };
    await connection.getClient().db('admin').command(command);
  }

  /** Resolves when its insert is on its way, with what comes of it. */
  async function beginToPublish(userId: string) {
    const published = gateway.publish({ ...payment, userId });
    for (;;) {
      const [{ commandName }] = await once(connection.getClient(), 'commandStarted');
      if (commandName === 'insert') return { published };
    }
  }

  it('is refused and not written, and stored once when it is published again with its key', async () => {
    await slowInserts(2_500);
    const begun = [await beginToPublish('usr_1'), await beginToPublish('usr_2')];
    const refused = await rejection(gateway.publish({ ...payment, userId: 'usr_3' }));
    await Promise.all(begun.map(({ published }) => published));
    expect(refused).to.deep.include({ code: 'publish_unconfirmed' });
    expect(await events().countDocuments()).to.equal(atOnce);

    const { idempotencyKey } = refused.details as { idempotencyKey: string };
    const { id } = await gateway.publish({ ...payment, userId: 'usr_3' }, { idempotencyKey });
    const stored = await events().find({ userId: 'usr_3' }).toArray();
    expect(stored.map(({ _id }) => String(_id))).to.deep.equal([id]);
  });
});
