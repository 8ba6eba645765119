import { expect } from 'chai';
import { createAttempts } from '../../../src/deliveries/attempt.ts';
import type { Claim, Claims } from '../../../src/deliveries/claims.ts';
import type { DeliveryDocument } from '../../../src/deliveries/model.ts';
import { NotSentError } from '../../../src/deliveries/send.ts';
import { createLeaseRenewal } from '../../../src/mongo/lease.ts';
import { silentLogger } from '../../support/logger.ts';
import { fakeWebhooks, noRateLimits } from '../delivery-services.ts';

describe('An attempt whose claim was answered late', () => {
  async function makeAttempt({ lease, answerAfter }: { readonly lease: number; readonly answerAfter: number }) {
    const done: string[] = [];
    const webhooks = fakeWebhooks();
    const webhookId = webhooks.add('http://127.0.0.1:9/');
    const delivery = { _id: 'dlv_1', eventId: 'evt_1', webhookId, type: 'payment.completed', attempt: 1, starts: 1 };
    const claims = {
      async claim() {
        const heldUntil = performance.now() + lease;
        await new Promise((resolve) => setTimeout(resolve, answerAfter));
        const claim: Claim = {
          delivery: delivery as DeliveryDocument,
          token: 'token',
          startedAt: new Date(),
          heldUntil,
        };
        return claim;
      },
      async finish() {
        done.push('finished');
        return true;
      },
      forget() {},
      async release() {
        done.push('released');
      },
    } as Partial<Claims> as Claims;
    const { make } = createAttempts({
      claims,
      leases: createLeaseRenewal({ renew: async () => [], lease, interval: 10_000, logger: silentLogger }),
      async send({ maySend = () => true }) {
        if (!maySend()) throw new NotSentError();
        done.push('sent');
        return { status: 200, durationMs: 1, response: '' };
      },
      forDelivery: webhooks.forDelivery,
      body: async () => Buffer.from('{}'),
      sendRates: noRateLimits,
      retryDelays: [],
      userAgent: 'test',
      schedule() {},
      scheduleWaiting() {},
      logger: silentLogger,
    });
    await make({ deliveryId: 'dlv_1', webhookId, userId: 'usr_1', attempt: 1 });
    return done;
  }

  it('is released unsent, as another worker may have made it by then', async () => {
    expect(await makeAttempt({ lease: 600, answerAfter: 700 })).to.deep.equal(['released']);
  });

  it('is made when the answer came in time', async () => {
    expect(await makeAttempt({ lease: 60_000, answerAfter: 0 })).to.deep.equal(['sent', 'finished']);
  });
});
