import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { payment } from '../../events/harness.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { paceLimits } from '../../support/paced-limits.ts';
import { eventually } from '../../support/until.ts';

/** As Atlas suggests it to users of mongoose. */
const serverApi = { version: '1', strict: true, deprecationErrors: true } as const;

/** Commands that are tried, and done without: how full the disk is, and which indexes are being built. */
const optional: readonly string[] = ['dbStats', 'listIndexes'];

describe("A gateway on a host's own connection with the strict Stable API", () => {
  paceLimits();
  const secretKeys = [newSecretKey()];
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let receiver: TestReceiver;
  let live: LiveGateway;
  let gateway: ModelGateway;
  let webhookId: string;
  /** What the server has refused since the gateway started. */
  const refused: string[] = [];

  before(async () => {
    database = await watchedDatabase({ serverApi });
    receiver = await startReceiver();
    // builds the indexes
    await (await startGateway({ mongo: database.connection, secretKeys })).close();
    live = await startGateway({ mongo: database.connection, secretKeys, indexes: 'check' });
    ({ gateway } = live);
    database.connection.getClient().on('commandFailed', ({ commandName, failure }) => {
      if (!optional.includes(commandName) && /apiStrict/.test(failure.message)) refused.push(failure.message);
    });
    const { body } = await live.call('POST', '/v1/webhooks', { url: receiver.url, events: [payment.type] });
    webhookId = body.id;
    await gateway.publish(payment);
    await gateway.transaction((session) => gateway.publish(payment, { session }));
    await receiver.count(2);
  });
  after(async () => {
    await live?.close();
    await receiver?.stop();
    await database?.drop();
  });

  it('lists deliveries, and events by their state', async () => {
    for (const path of ['/v1/deliveries', `/v1/deliveries?webhook_id=${webhookId}`, '/v1/events?state=delivered']) {
      const { body } = await eventually(
        () => live.call('GET', path),
        ({ status, body: { data } }) => status !== 200 || data.length === 2,
      );
      expect(body.data, path).to.have.length(2);
    }
  });

  it('recovers what a webhook has missed', async () => {
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const { status } = await live.call('POST', `/v1/webhooks/${webhookId}/recover`, { since });
    expect(status).to.equal(202);
  });

  it('finds its indexes and the keys of stored secrets', async () => {
    expect((await gateway.health()).checks).to.include({ indexes: 'ok', sealingKeys: 'ok' });
  });

  it('sends no command that the Stable API does not have', () => {
    expect(refused).to.deep.equal([]);
  });
});
