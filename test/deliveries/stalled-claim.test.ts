import { expect } from 'chai';
import { createAttempts } from '../../src/deliveries/attempt.ts';
import type { Claim, Claims } from '../../src/deliveries/claims.ts';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import { fakeWebhooks, quiet } from './gateway.ts';

describe('An attempt whose claim was answered late', () => {
  const sendWithin = 300;

  async function makeAttempt(answerAfter: number) {
    const done: string[] = [];
    const webhooks = fakeWebhooks();
    const webhookId = webhooks.add('http://127.0.0.1:9/');
    const delivery = { _id: 'dlv_1', eventId: 'evt_1', webhookId, type: 'payment.completed', attempt: 1, starts: 1 };
    const claim: Claim = { delivery: delivery as DeliveryDocument, token: 'token', startedAt: new Date() };
    const claims = {
      async claim() {
        await new Promise((resolve) => setTimeout(resolve, answerAfter));
        return claim;
      },
      async finish() {
        done.push('finished');
        return true;
      },
      async release() {
        done.push('released');
      },
    } as Partial<Claims> as Claims;
    const { make } = createAttempts({
      claims,
      leases: { hold() {}, drop() {} },
      async send() {
        done.push('sent');
        return { status: 200, durationMs: 1, response: '' };
      },
      forDelivery: webhooks.forDelivery,
      body: async () => Buffer.from('{}'),
      sendWithin,
      retryDelays: [],
      userAgent: 'test',
      ring() {},
      logger: quiet,
    });
    await make('dlv_1', 1);
    return done;
  }

  it('is given back unsent: by then another worker may have made it', async () => {
    expect(await makeAttempt(2 * sendWithin)).to.deep.equal(['released']);
  });

  it('is made when the answer came in time', async () => {
    expect(await makeAttempt(0)).to.deep.equal(['sent', 'finished']);
  });
});
