import { expect } from 'chai';
import type { ModelGateway } from '../../../../src/index.ts';
import { createGateway, newSecretKey } from '../../../support/gateway.ts';
import { low, type Scene, startScene } from '../../over-http.ts';
import { hang, startReceiver, type TestReceiver } from '../../receiver.ts';
import { storeEnded } from './missed.ts';

describe('A gateway that closes while it recovers', () => {
  const secretKeys = [newSecretKey()];
  let scene: Scene;
  let publisher: ModelGateway;
  let silent: TestReceiver;
  let quick: TestReceiver;

  before(async () => {
    [silent, quick] = await Promise.all([startReceiver(hang), startReceiver(200)]);
    scene = await startScene({ secretKeys, retryDelays: [], deliveries: { attemptTimeout: 2_000 } });
    publisher = await createGateway({ mongo: scene.connection, secretKeys });
  });
  after(async () => {
    await publisher.close();
    await scene.close();
    await Promise.all([silent.stop(), quick.stop()]);
  });

  it('starts no delivery published after that, and records the attempt of its recovery', async () => {
    const webhookId = await scene.webhook(silent.url);
    await scene.gateway.webhooks.create('usr_2', { url: quick.url, events: [low.type] });
    await storeEnded(scene.connection, webhookId, ['failed']);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    await scene.call('POST', `/v1/webhooks/${webhookId}/recover`, { since });
    await silent.count(1);

    const closing = scene.gateway.close();
    await publisher.publish({ ...low, userId: 'usr_2' });
    await closing;
    expect(quick.received).to.have.length(0);
    const attempts = (await scene.stored.findOne({ webhookId }))?.attempts ?? [];
    expect(attempts.map(({ code }) => code)).to.deep.equal(['http_500', 'timeout']);
  });
});
