import { expect } from 'chai';
import type { ConnectOptions } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { payment } from '../../events/harness.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { recordingLogger } from '../../support/logger.ts';
import { connectionTimes } from '../../support/mongo.ts';

const choices: readonly [what: string, options: ConnectOptions][] = [
  ['that reads from secondaries', { readPreference: 'secondaryPreferred' }],
  ['that may read from any member', { readPreference: 'nearest' }],
  ['that reads what a majority has', { readConcernLevel: 'majority' }],
  ['that reads linearizably', { readConcernLevel: 'linearizable' }],
  ['that reads whatever is available', { readConcernLevel: 'available' }],
  ['that retries nothing', { retryReads: false, retryWrites: false }],
];

for (const [what, options] of choices)
  describe(`A gateway on a host’s own connection ${what}`, () => {
    let database: Awaited<ReturnType<typeof watchedDatabase>>;
    let gateway: ModelGateway;
    let receiver: TestReceiver;

    before(async () => {
      database = await watchedDatabase(options);
      receiver = await startReceiver();
      gateway = await createGateway({
        mongo: database.connection,
      });
      await gateway.start();
    });
    after(async () => {
      await gateway?.close();
      await receiver?.stop();
      await database?.drop();
    });

    it('publishes with writes to a majority and the journal, and delivers', async () => {
      const { id } = await gateway.webhooks.create('usr_1', {
        url: receiver.url,
        events: [payment.type],
        secret: 'a secret of the receiver',
      });
      for (let i = 0; i < 3; i += 1) await gateway.publish(payment);
      await gateway.transaction((session) => gateway.publish(payment, { session }));
      await receiver.count(4);
      database.forget();
      await gateway.publish(payment);
      await receiver.count(5);
      const inserts = database.commandsTo('gateway_events').filter(({ name }) => name === 'insert');
      expect(inserts.map(({ command }) => command.writeConcern)).to.deep.equal([{ w: 'majority', j: true }]);
      expect((await gateway.webhooks.get('usr_1', id)).active).to.equal(true);
    });

    it('finds no webhook and no key under ids that do not exist', async () => {
      const error = await gateway.webhooks.get('usr_1', 'wh_01m7yjr7ep6v60gn3fqkw5dpz6').catch((thrown) => thrown);
      expect(error).to.include({ code: 'webhook_not_found' });
      expect(await gateway.keys.get('key_01m7yjr7ep6v60gn3fqkw5dpz6')).to.equal(null);
    });
  });

describe('A gateway on a host’s own connection', () => {
  /** What the log says of the connection until the gateway has started. */
  async function said(options: ConnectOptions): Promise<string[]> {
    const { connection, drop } = await watchedDatabase(options);
    const logger = recordingLogger();
    const gateway = await createGateway({ mongo: connection, logger });
    await gateway.start();
    await gateway.close();
    await drop();
    return logger.lines.map(({ message }) => message).filter((message) => message.startsWith('mongo:'));
  }

  it('logs once at start which options the connection lacks, and nothing when it lacks none', async () => {
    const [told, ...more] = await said({});
    expect(more).to.deep.equal([]);
    for (const [option, time] of Object.entries(connectionTimes)) expect(told).to.include(`${option}: ${time}`);
    expect(await said(connectionTimes)).to.deep.equal([]);
    const [untried] = await said({ ...connectionTimes, retryReads: false, retryWrites: false });
    expect(untried).to.include('{ retryReads: true, retryWrites: true }');
  });
});
