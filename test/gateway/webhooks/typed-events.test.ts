import { expect } from 'chai';
import type { createModelGateway, ModelGateway, ModelGatewayOptions } from '../../../src/index.ts';
import { type WebhookEvent, webhookReceiver } from '../../../src/receiver/index.ts';

/** Never runs: the compiler reads it. */
async function published(create: typeof createModelGateway, base: ModelGatewayOptions<never>): Promise<void> {
  const gateway = await create(base);
  const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 5 };
  await gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
  // @ts-expect-error there is no such type
  await gateway.publish({ type: 'credits.lo', userId: 'usr_1', data });
  // @ts-expect-error the data of another type
  await gateway.publish({ type: 'credits.low', userId: 'usr_1', data: { payment_id: 'pay_1' } });

  const eventTypes = { 'order.shipped': { schema: { type: 'object' }, example: {} } };
  const withOwn = await create({ ...base, eventTypes });
  await withOwn.publish({ type: 'order.shipped', userId: 'usr_1', data: { order: 7 } });
  // @ts-expect-error neither the gateway's nor the host's own
  await withOwn.publish({ type: 'order.lost', userId: 'usr_1', data: {} });

  const anyOptions: ModelGatewayOptions = { ...base, eventTypes };
  const open: ModelGateway = await create(anyOptions);
  await open.publish({ type: 'whatever.there_is', userId: 'usr_1', data: {} });
}

/** Never runs: the compiler reads it. */
function listened({ on, off }: ModelGateway): void {
  on('delivery.failed', ({ webhookId }) => webhookId);
  // @ts-expect-error there is no such notification
  on('delivery.lost', () => {});
  // @ts-expect-error a failed delivery names no account's credits
  on('delivery.failed', ({ creditsRemaining }) => creditsRemaining);
  // @ts-expect-error the listener of another notification
  on('webhook.failing', (notification: { readonly eventId: string }) => notification.eventId);
  // @ts-expect-error a listener is a function
  on('webhook.disabled', 'a listener');
  // @ts-expect-error there is no such notification
  off('delivery.lost', () => {});
}

describe('the types of events', () => {
  it('are checked by the compiler when they are published', () => {
    expect(published).to.be.a('function');
  });

  it('are checked by the compiler where a host listens to notifications', () => {
    expect(listened).to.be.a('function');
  });

  it('may be a host’s own where they are received', () => {
    const receive = webhookReceiver<never, WebhookEvent | { readonly type: 'order.shipped'; readonly order: number }>({
      secret: 'a secret',
      onEvent: (event) => (event.type === 'order.shipped' ? event.order : event.data),
    });
    expect(receive).to.be.a('function');
  });
});
