import { createHmac } from 'node:crypto';
import { expect } from 'chai';
import { freshDatabase } from '../support/mongo.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  secret,
  startDeliveryServices,
} from './delivery-services.ts';
import { hang, type Received, reset, startReceiver, type TestReceiver } from './receiver.ts';

/** The receiver's own way to the signature, from docs/receiving.md alone. */
function signatureByHand({ body }: Received): string {
  return `sha256=${createHmac('sha256', Buffer.from(secret, 'utf8')).update(body).digest('hex')}`;
}

describe('The life of an event', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  it('is delivered after two 500s, a time-out and a reset, with the same signed bytes each time', async () => {
    receiver = await startReceiver(500, 500, hang, reset, 200);
    webhooks.add(receiver.url);
    const retryDelays = [40, 80, 120, 60, 30];
    const attemptTimeout = 3_000;
    gateway = await startDeliveryServices(database.connection, webhooks, { retryDelays, attemptTimeout });
    await gateway.start();

    const event = await gateway.publish(payment);
    const delivery = await gateway.delivery(event.id, ended);
    const requests = receiver.received;

    expect(delivery.state).to.equal('delivered');
    expect(requests).to.have.length(5);
    expect(new Set(requests.map(({ body }) => body.toString('latin1'))).size).to.equal(1);
    expect(JSON.parse(requests[0]?.body.toString() ?? '')).to.deep.equal({
      id: event.id,
      type: event.type,
      created: event.created,
      data: payment.data,
    });
    for (const request of requests) {
      expect(request.method).to.equal('POST');
      expect(request.headers['content-type']).to.equal('application/json');
      expect(request.headers['user-agent']).to.equal('express-model-gateway/test');
      expect(request.headers['webhook-id']).to.equal(event.id);
      expect(request.headers['x-service-signature']).to.equal(signatureByHand(request));
      expect(request.headers).not.to.have.property('x-service-test');
    }
    expect(delivery.attempts.map(({ number, status, code }) => [number, status ?? null, code ?? null])).to.deep.equal([
      [1, 500, 'http_500'],
      [2, 500, 'http_500'],
      [3, null, 'timeout'],
      [4, null, 'reset'],
      [5, 200, null],
    ]);
    expect(delivery.attempts[0]?.response).to.equal('answered 500');
    // a timer counts whole milliseconds of a clock that may itself be one behind
    expect(delivery.attempts[2]?.durationMs).to.be.at.least(attemptTimeout - 2);
    for (const [i, delay] of retryDelays.slice(0, 4).entries()) {
      const waited = (requests[i + 1]?.at ?? 0) - (requests[i]?.at ?? 0);
      expect(waited, `the wait before attempt ${i + 2}`).to.be.at.least(delay);
      // a busy receiver may have read a request late: what the attempts themselves took is recorded
      const [one, next] = [delivery.attempts[i], delivery.attempts[i + 1]];
      const after = Number(next?.startedAt) - Number(one?.startedAt) - Number(one?.durationMs);
      expect(after, `from attempt ${i + 1} to the next`).to.be.at.least(delay - 2);
    }
  });

  it('ends as failed after six attempts, and a seventh is never made', async () => {
    receiver = await startReceiver(503);
    webhooks.add(receiver.url);
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50 });
    await gateway.start();

    const { id } = await gateway.publish(payment);
    const delivery = await gateway.delivery(id, ended);
    // shows that nothing more happens
    await new Promise((resolve) => setTimeout(resolve, 300));

    expect(delivery.state).to.equal('failed');
    expect(await gateway.stateOfEvent(id)).to.equal('failed');
    expect(delivery.attempts.map(({ number }) => number)).to.deep.equal([1, 2, 3, 4, 5, 6]);
    expect(receiver.received).to.have.length(6);
    expect(await database.connection.collection('gateway_jobs').countDocuments()).to.equal(0);
  });

  it('takes less than 100 ms from publish to the receiver in the same process', async function () {
    // it measures time, to which a busy machine only adds: the least of four measurements counts
    this.retries(3);
    receiver = await startReceiver(200);
    webhooks.add(receiver.url);
    gateway = await startDeliveryServices(database.connection, webhooks);
    await gateway.start();
    await gateway.publish(payment);
    await receiver.count(1);

    const waits: number[] = [];
    for (let i = 2; i < 12; i += 1) {
      const published = performance.now();
      await gateway.publish(payment);
      const requests = await receiver.count(i);
      waits.push((requests.at(-1)?.at ?? 0) - published);
    }
    waits.sort((a, b) => a - b);

    expect(waits[5]).to.be.below(100);
  });
});
