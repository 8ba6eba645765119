import { createHash, createHmac } from 'node:crypto';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { type Received, startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';

const old = 'the secret that receivers have';
const fresh = `whsec_${createHash('sha256').update('fresh').digest('base64')}`;
const event = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 1, threshold: 5 },
};

/** As docs/receiving.md tells receivers to check, with code of our own. */
function isSigned({ body, headers }: Received, secret: string): boolean {
  return headers['x-service-signature'] === `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** As Standard Webhooks 1.0 tells receivers to check: one of the signatures must match. */
function isStandardSigned({ body, headers }: Received, secret: string): boolean {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret);
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return String(headers['webhook-signature']).split(' ').includes(expected);
}

describe("the rotation of a webhook's secret", () => {
  let live: LiveGateway;
  let receiver: TestReceiver;
  let connection: Connection;
  let id: string;

  before(async () => {
    connection = await mongoose.createConnection(freshUri()).asPromise();
    live = await startGateway({ mongo: connection, secretKeys: [newSecretKey()] });
  });
  beforeEach(async () => {
    receiver = await startReceiver(200);
    const body = { url: receiver.url, events: [event.type], secret: old };
    ({ id } = (await live.call('POST', '/v1/webhooks', body)).body);
  });
  afterEach(async () => {
    await live.call('DELETE', `/v1/webhooks/${id}`);
    await receiver.stop();
  });
  after(async () => {
    await live.close();
    await connection.dropDatabase();
    await connection.close();
  });

  it('makes a secret where the request has no body', async () => {
    for (const headers of [{}, { 'content-type': 'application/json' }]) {
      const url = `${live.url}/v1/webhooks/${id}/rotate_secret`;
      const authorization = `Bearer ${live.key}`;
      const answer = await fetch(url, { method: 'POST', headers: { ...headers, authorization } });
      expect(answer.status).to.equal(200);
      expect(((await answer.json()) as { secret: string }).secret).to.match(/^whsec_/);
    }
  });

  const rotate = (body: object) => live.call('POST', `/v1/webhooks/${id}/rotate_secret`, body);
  /** A second ago: the sender goes by the database's clock, which lags. */
  const endOverlap = () =>
    connection
      .collection('gateway_webhooks')
      .updateOne({ _id: id as never }, { $set: { 'rotation.endsAt': new Date(Date.now() - 1_000) } });

  /** What of the next delivery is signed with the old secret and with the new one. */
  async function signatures() {
    const already = receiver.received.length;
    await live.gateway.publish(event);
    const delivery = (await receiver.count(already + 1)).at(-1) as Received;
    const by = (secret: string) => [isSigned(delivery, secret), isStandardSigned(delivery, secret)];
    const count = String(delivery.headers['webhook-signature']).split(' ').length;
    return { count, old: by(old), fresh: by(fresh) };
  }

  it('signs with both secrets during the overlap, and x-service-signature with the new one', async () => {
    expect(await signatures()).to.deep.equal({ count: 1, old: [true, true], fresh: [false, false] });
    const { status, body } = await rotate({ secret: fresh, overlap_seconds: 60 });
    expect(status).to.equal(200);
    expect(body).to.include({ id, active: true }).and.not.have.property('secret');
    expect(body.secret_rotation.service_signature).to.equal('new');
    expect(await signatures()).to.deep.equal({ count: 2, old: [false, true], fresh: [true, true] });
  });

  it('signs x-service-signature with the previous secret until the overlap ends, if asked to', async () => {
    await rotate({ secret: fresh, overlap_seconds: 60, service_signature: 'previous' });
    expect(await signatures()).to.deep.equal({ count: 2, old: [true, true], fresh: [false, true] });
    await endOverlap();
    expect(await signatures()).to.deep.equal({ count: 1, old: [false, false], fresh: [true, true] });
    expect((await live.call('GET', `/v1/webhooks/${id}`)).body.secret_rotation).to.equal(null);
  });

  it('signs at once with the new secret alone when there is no overlap', async () => {
    await rotate({ secret: fresh, overlap_seconds: 0 });
    expect(await signatures()).to.deep.equal({ count: 1, old: [false, false], fresh: [true, true] });
  });

  it('ends the overlap after as many seconds as were asked for', async () => {
    const asked = performance.now();
    await rotate({ secret: fresh, overlap_seconds: 4, service_signature: 'previous' });
    const ends = performance.now() + 4_100;
    const { count } = await signatures();
    // a busy machine may send it when the overlap is over
    if (Number(receiver.received.at(-1)?.at) < asked + 4_000) expect(count).to.equal(2);
    while (performance.now() < ends) await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await signatures()).count).to.equal(1);
  });

  it('makes a secret where null is sent for one, as if it were absent', async () => {
    const answer = await rotate({ secret: null, overlap_seconds: 60 });
    expect(answer.status).to.equal(200);
    expect(answer.body.secret).to.match(/^whsec_/);
    expect((await signatures()).count).to.equal(2);
  });

  for (const [what, body, code, param] of [
    ['a short secret', { secret: 'short' }, 'invalid_value', 'secret'],
    ['an overlap of eight days', { secret: fresh, overlap_seconds: 691_200 }, 'invalid_value', 'overlap_seconds'],
    ['an overlap that is a string', { secret: fresh, overlap_seconds: '1d' }, 'invalid_type', 'overlap_seconds'],
    ['an unknown signature', { secret: fresh, service_signature: 'both' }, 'invalid_value', 'service_signature'],
    [
      'previous without overlap',
      { secret: fresh, overlap_seconds: 0, service_signature: 'previous' },
      'invalid_value',
      'service_signature',
    ],
    ['an unknown field', { secret: fresh, overlap: 60 }, 'unknown_parameter', 'overlap'],
  ] as const) {
    it(`refuses ${what}, and goes on signing with the old secret`, async () => {
      const answer = await rotate(body);
      expect(answer.status).to.equal(400);
      expect(answer.body.error).to.include({ code, param });
      expect((await signatures()).old).to.deep.equal([true, true]);
    });
  }
});
