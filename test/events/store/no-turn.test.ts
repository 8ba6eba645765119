import { once } from 'node:events';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { payment, rejection } from '../harness.ts';

/** Writes of events on their way at once. */
const atOnce = 2;
/** How long each of them takes. Milliseconds. */
const slow = 2_500;
/** A publication waits 1,750 ms for its turn, so it must begin within this time after the first of them. Milliseconds. */
const soonEnough = 500;

describe('A publication that waits too long for its turn to be written', () => {
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

  async function slowInserts(): Promise<void> {
    const namespace = `${connection.name}.gateway_events`;
    const data = { appName, namespace, failCommands: ['insert'], blockConnection: true, blockTimeMS: slow };
    const command = { configureFailPoint: 'failCommand', mode: { times: atOnce }, data };
    await connection.getClient().db('admin').command(command);
  }

  /** Resolves when its insert is on its way. */
  async function beginToPublish(userId: string): Promise<void> {
    // where the database is slower still, it may be told that nobody knows whether it is stored
    gateway.publish({ ...payment, userId }).catch(() => {});
    for (;;) {
      const [{ commandName }] = await once(connection.getClient(), 'commandStarted');
      if (commandName === 'insert') return;
    }
  }

  /** Resolves when as many writes as may be are on their way; to how long after the first. */
  async function occupyTurns(): Promise<number> {
    await slowInserts();
    await beginToPublish('usr_1');
    const first = performance.now();
    await beginToPublish('usr_2');
    return performance.now() - first;
  }
  const untilStored = () => until(async () => (await events().countDocuments()) === atOnce);

  it('is refused and not written, and stored once when it is published again with its key', async () => {
    // begins anew where this machine was too busy
    while ((await occupyTurns()) > soonEnough) {
      await untilStored();
      await events().deleteMany({});
    }
    const refused = await rejection(gateway.publish({ ...payment, userId: 'usr_3' }));
    expect(refused).to.deep.include({ code: 'publish_unconfirmed' });
    await untilStored();
    expect(await events().countDocuments({ userId: 'usr_3' })).to.equal(0);

    const { idempotencyKey } = refused.details as { idempotencyKey: string };
    const { id } = await gateway.publish({ ...payment, userId: 'usr_3' }, { idempotencyKey });
    const stored = await events().find({ userId: 'usr_3' }).toArray();
    expect(stored.map(({ _id }) => String(_id))).to.deep.equal([id]);
  });
});
