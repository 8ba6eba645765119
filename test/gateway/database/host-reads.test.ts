import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { payment } from '../../events/harness.ts';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { until } from '../../support/until.ts';

describe('a host’s own code', () => {
  let account: LiveAccount;
  let receiver: TestReceiver;

  before(async () => {
    account = await startAccount({ prompt_tokens: 3, completion_tokens: 2 }, {});
    receiver = await startReceiver();
  });
  after(async () => {
    await account?.close();
    await receiver?.stop();
  });

  it('reads the state and the deliveries of an event, under the account that it belongs to', async () => {
    const { gateway } = account.live;
    const { id: webhookId } = await gateway.webhooks.create('usr_1', { url: receiver.url, events: [payment.type] });
    const { id: eventId } = await gateway.publish(payment);
    await until(async () => (await gateway.events.get('usr_1', eventId)).state === 'delivered');
    const { events } = await gateway.events.list('usr_1', { limit: 1 });
    expect(events[0]).to.include({ id: eventId, type: payment.type });
    const { deliveries, hasMore } = await gateway.deliveries.list('usr_1', { eventId });
    expect(hasMore).to.equal(false);
    expect(deliveries).to.have.length(1);
    expect(deliveries[0]).to.include({ eventId, webhookId, state: 'delivered' }).and.not.have.property('_id');
    const delivery = await gateway.deliveries.get('usr_1', deliveries[0]?.id as string);
    expect(delivery.attempts[0]).to.include({ number: 1, status: 200 });
    for (const read of [
      () => gateway.events.get('usr_2', eventId),
      () => gateway.deliveries.get('usr_2', delivery.id),
    ]) {
      expect(await read().catch((error) => error.code)).to.match(/^(event|delivery)_not_found$/);
    }
  });

  it('reads the usage of an account', async () => {
    const { gateway } = account.live;
    await account.client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Well?' }] });
    const report = () => gateway.usage?.report('usr_1', { groupBy: ['model'] });
    await until(async () => ((await report())?.lines.length ?? 0) > 0);
    expect((await report())?.lines).to.deep.equal([
      {
        model: 'm',
        requests: 1,
        inputTokens: 3,
        cachedInputTokens: 0,
        outputTokens: 2,
        reasoningTokens: 0,
        images: 0,
        seconds: 0,
        characters: 0,
        uploadedBytes: 0,
        downloadedBytes: 0,
      },
    ]);
  });
});
