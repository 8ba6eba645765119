import { expect } from 'chai';
import mongoose from 'mongoose';
import { scopes } from '../../../src/index.ts';
import { low } from '../../deliveries/over-http.ts';
import { hang, startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { storeEnded } from '../../deliveries/redeliver/recoveries/missed.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { dropLater, freshUri } from '../../support/mongo.ts';
import { sendTo } from '../requests/send.ts';

/** https://owasp.org/API-Security/editions/2023/en/0xa4-unrestricted-resource-consumption/ */
describe('the delivery places of a process are shared:', () => {
  const secret = 'a secret of the receiver';
  let live: LiveGateway & { connection: mongoose.Connection };
  let hanging: TestReceiver;
  let healthy: TestReceiver;

  beforeEach(async () => {
    [hanging, healthy] = await Promise.all([startReceiver(hang), startReceiver(200)]);
    const connection = await mongoose.createConnection(freshUri()).asPromise();
    live = { ...(await startGateway({ mongo: connection })), connection };
  });
  afterEach(async () => {
    await hanging.stop();
    await Promise.all([live.close(), healthy.stop()]);
    dropLater(live.connection);
  });

  const subscribe = (userId: string, url: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        live.gateway.webhooks.create(userId, { url, events: ['credits.low'], secret }),
      ),
    );
  const publish = (userId: string) => live.gateway.publish({ ...low, userId, data: { ...low.data, user_id: userId } });

  /** The milliseconds that each of these events of an account takes to its receiver, one after the other. */
  async function waits(userId: string, count: number): Promise<number[]> {
    const found: number[] = [];
    for (let i = 1; i <= count; i += 1) {
      const started = performance.now();
      await publish(userId);
      const before = healthy.received.length;
      await healthy.count(Math.max(before, i), 20_000);
      found.push((healthy.received[i - 1]?.at ?? Number.POSITIVE_INFINITY) - started);
    }
    return found.sort((a, b) => a - b);
  }

  it('an account whose 50 webhooks hang does not delay the events of another account', async () => {
    await Promise.all([subscribe('usr_hanging', hanging.url, 50), subscribe('usr_2', healthy.url, 1)]);
    for (let i = 0; i < 12; i += 1) await publish('usr_hanging');
    await hanging.count(30);

    const others = await waits('usr_2', 15);
    expect(others[7], 'median').to.be.below(500);
    expect(others[14], 'longest').to.be.below(2_500);
    expect(hanging.received.length, 'requests to the account that hangs').to.be.within(30, 50);
  });

  it('an account has no more resends in progress than its share, and they do not block those of another account', async () => {
    const [webhook] = await subscribe('usr_1', hanging.url, 1);
    const events = await storeEnded(live.connection, webhook?.id ?? '', Array(51).fill('failed'));
    const stored = await live.connection
      .collection('gateway_deliveries')
      .find({ eventId: { $in: events } })
      .toArray();
    const resends = stored.map(({ _id }) => live.call('POST', `/v1/deliveries/${_id}/resend`));
    await hanging.count(50);
    const first = await Promise.race(resends);
    expect([first.status, first.body.error?.code]).to.deep.equal([429, 'rate_limit_exceeded']);

    const [other] = await subscribe('usr_2', healthy.url, 1);
    await storeEnded(live.connection, other?.id ?? '', ['failed'], 'usr_2');
    const delivery = await live.connection.collection('gateway_deliveries').findOne({ userId: 'usr_2' });
    const { key } = await live.gateway.keys.create({ userId: 'usr_2' });
    const path = `/v1/deliveries/${delivery?._id}/resend`;
    const answer = await sendTo(live.url, 'POST', path, { key });
    expect([answer.status, healthy.received.length]).to.deep.equal([200, 1]);
    await hanging.stop();
    await Promise.all(resends);
  });

  /** Begins to recover what a webhook has missed; resolves when the first of it has come to the receiver. */
  async function recover(userId: string, receiver: TestReceiver, events: number, webhooks = 1): Promise<void> {
    const before = receiver.received.length;
    const made = await subscribe(userId, receiver.url, webhooks);
    const { key } = await live.gateway.keys.create({ userId, scopes });
    for (const { id } of made) {
      await storeEnded(live.connection, id, Array(events).fill('failed'), userId);
      const body = JSON.stringify({ since: new Date(Date.now() - 3_600_000).toISOString() });
      expect((await sendTo(live.url, 'POST', `/v1/webhooks/${id}/recover`, { key, body })).status).to.equal(202);
    }
    await receiver.count(before + 1);
  }

  it('four hanging recoveries of one account delay the recovery of another account by less than four seconds', async () => {
    await recover('usr_hanging', hanging, 100, 4);
    const started = performance.now();
    await recover('usr_2', healthy, 1);

    expect(performance.now() - started).to.be.below(4_000);
  });

  it('hanging recoveries of four accounts make room for that of a fifth within 20 seconds', async () => {
    for (const userId of ['usr_a', 'usr_b', 'usr_c', 'usr_d']) await recover(userId, hanging, 100);
    const started = performance.now();
    await recover('usr_2', healthy, 1);

    expect(performance.now() - started).to.be.below(20_000);
  });

  it('five accounts whose webhooks hang do not delay the events of a sixth', async () => {
    const accounts = Array.from({ length: 5 }, (_, i) => `usr_hanging_${i}`);
    for (const userId of accounts) await subscribe(userId, hanging.url, 50);
    await subscribe('usr_2', healthy.url, 1);
    for (let i = 0; i < 4; i += 1) await Promise.all(accounts.map(publish));
    await hanging.count(100);

    expect((await waits('usr_2', 5))[4], 'longest').to.be.below(2_500);
    expect(hanging.received.length, 'requests to accounts that hang').to.be.below(200);
  });
});
