import { expect } from 'chai';
import { createAttemptWait } from '../../../src/deliveries/attempt.ts';
import { createResend, createSendTest, type ResendDeps, type SendTestDeps } from '../../../src/deliveries/redeliver.ts';
import { type DeliveryRoutesDeps, deliveryOperations } from '../../../src/deliveries/routes.ts';
import { createInFlightLimit } from '../../../src/fairness/account-shares.ts';
import type { DataOperation } from '../../../src/http/operation.ts';
import { newId } from '../../support/ids.ts';
import { silentLogger } from '../../support/logger.ts';

/** An attempt that nobody hears of in time. */
const never = () => new Promise<never>(() => {});

const at = new Date();
const delivery = {
  id: newId('dlv', at.getTime()),
  eventId: newId('evt', at.getTime()),
  webhookId: newId('wh', at.getTime()),
  userId: 'usr_1',
  type: 'credits.low',
  test: false,
  state: 'pending',
  attempt: 1,
  maxAttempts: 6,
  starts: 0,
  dueAt: at,
  inFlight: true,
  attempts: [],
  createdAt: at,
} as const;

const history = { get: async () => delivery, list: async () => ({ deliveries: [delivery], hasMore: false }) };
const budget = () => ({ run: (work: () => Promise<unknown>) => work(), renew: () => {} });
const { hasEnded } = createAttemptWait(never);
const context = async () => ({ url: null, body: null, userAgent: 'a', retryDelays: [] });

describe('An answer that waits for the outcome of an attempt', () => {
  const resend = createResend({
    manual: { claim: async () => ({}), make: never },
    history,
    hasEnded,
    pendingWork: { add() {} },
    limit: createInFlightLimit(50, 'resends'),
    logger: silentLogger,
    wait: 20,
  } as unknown as ResendDeps);
  const sendTest = createSendTest({
    webhook: async () => ({ active: true, events: ['credits.low'] }),
    publishTest: async () => ({}),
    makeTestAttempt: () => ({ deliveryId: delivery.id, ended: never() }),
    history,
    hasEnded,
    limit: createInFlightLimit(50, 'test events'),
    wait: 20,
  } as unknown as SendTestDeps);
  const operations = deliveryOperations({
    history,
    context,
    budget,
    resend,
    sendTest,
  } as unknown as DeliveryRoutesDeps);

  for (const [id, params, body] of [
    ['resendDelivery', { id: delivery.id }, undefined],
    ['testWebhook', { id: delivery.webhookId }, { type: 'credits.low' }],
  ] as const) {
    it(`is a 202 of ${id} when the outcome does not come in time, and shows the attempt in flight`, async () => {
      const { handle } = operations[id] as DataOperation;
      const reply = await handle({ principal: { userId: 'usr_1' }, params, body } as never);
      expect(reply.status).to.equal(202);
      expect(reply.body).to.include({ id: delivery.id, state: 'pending', in_flight: true });
    });
  }
});
