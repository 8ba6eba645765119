import { expect } from 'chai';
import express from 'express';
import { createModelGateway, type ModelGateway, scopes } from '../../src/index.ts';
import { startReceiver } from '../deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { type Listening, listen } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';

const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;

describe('The deliveries that have ended', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let gateways: [ModelGateway, ModelGateway];
  let api: Listening;
  let key: string;

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver();
    const options = {
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      retryDelays: [50],
    };
    gateways = [await createModelGateway(options), await createModelGateway(options)];
    for (const gateway of gateways) await gateway.start();
    api = await listen(express().use(gateways[0].router));
    ({ key } = await gateways[0].keys.create({ userId: 'usr_1', scopes }));
  });
  after(async () => {
    await api.close();
    for (const gateway of gateways) await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  async function post(path: string, body = {}): Promise<void> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(api.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    expect(response.status, await response.text()).to.be.oneOf([200, 201]);
  }

  /** What both processes have counted, by state and code. */
  async function counted(): Promise<Record<string, number>> {
    const sums: Record<string, number> = {};
    for (const gateway of gateways) {
      const metric = await gateway.metrics().getSingleMetric('gateway_deliveries_ended_total')?.get();
      for (const { labels, value } of metric?.values ?? []) {
        const name = [labels.state, labels.code].filter(Boolean).join(' ');
        sums[name] = (sums[name] ?? 0) + value;
      }
    }
    return sums;
  }
  const inOrder = (counts: Record<string, number>) => JSON.stringify(Object.entries(counts).sort());
  const become = (expected: Record<string, number>) =>
    until(async () => inOrder(await counted()) === inOrder(expected), undefined, inOrder(expected));
  const ended = () =>
    until(
      async () =>
        (await database.connection.collection('gateway_deliveries').countDocuments({ state: 'pending' })) === 0,
    );

  it('are counted once by all processes together, by state and code, without those of test events', async () => {
    const [gateway] = gateways;
    const { id } = await gateway.webhooks.create('usr_1', { url: receiver.url, events: [low.type] });
    await gateway.publish(low);
    await become({ delivered: 1 });

    receiver.answers(500);
    await gateway.publish(low);
    await become({ delivered: 1, 'failed http_status': 1 });
    await post(`/v1/webhooks/${id}/test`, { type: low.type });
    await ended();
    expect(await counted()).to.deep.equal({ delivered: 1, 'failed http_status': 1 });

    receiver.answers((res) => {
      // before its second attempt
      void gateway.webhooks.update('usr_1', id, { active: false }).then(() => res.writeHead(500).end());
    });
    await gateway.publish(low);
    await become({ delivered: 1, 'failed http_status': 1, 'canceled webhook_inactive': 1 });
  });

  it('are counted again when a resend delivers them, and not when one more does', async () => {
    const [gateway] = gateways;
    const [webhook] = (await gateway.webhooks.list('usr_1')).webhooks;
    await gateway.webhooks.update('usr_1', webhook?.id ?? '', { active: true });
    receiver.answers(200);
    const { deliveries } = await gateway.deliveries.list('usr_1', { state: 'failed', limit: 10 });
    const failed = deliveries.find(({ test }) => !test);
    for (let i = 0; i < 2; i += 1) await post(`/v1/deliveries/${failed?.id}/resend`);
    expect(await counted()).to.include({ delivered: 2, 'failed http_status': 1 });
  });
});
