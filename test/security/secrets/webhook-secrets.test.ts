import { createHmac } from 'node:crypto';
import { expect } from 'chai';
import { verifySignature } from '../../../src/receiver/index.ts';
import { type Received, startReceiver } from '../../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';

const events = ['credits.low'];
const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 10 };

describe('The secret of a webhook', () => {
  let live: LiveGateway;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;

  before(async () => {
    live = await startGateway();
    receiver = await startReceiver(200);
  });
  after(async () => {
    await live.close();
    await receiver.stop();
  });

  const create = (body: object) => live.call('POST', '/v1/webhooks', { url: receiver.url, events, ...body });

  for (const secret of ['aaaaaaaa', 'abababab', '12345678', 'qwertyui', 'password', 'Secret123!', 'hunter2hunter2']) {
    it(`cannot be '${secret}', which is easy to guess; the error says why and does not repeat it`, async () => {
      const { body: webhook } = await create({});
      for (const { status, body } of [
        await create({ secret }),
        await live.call('POST', `/v1/webhooks/${webhook.id}/rotate_secret`, { secret }),
      ]) {
        expect(status).to.equal(400);
        expect(body.error).to.include({ code: 'invalid_value', param: 'secret' });
        expect(body.error.message).to.match(/^secret: is easy to guess: it .+ leave it out to get a generated one$/);
        expect(body.error.message).not.to.include(secret);
      }
      await live.call('DELETE', `/v1/webhooks/${webhook.id}`);
    });
  }

  for (const [secret, says] of [
    ['C2FVsBQIhrscChlQ\n', 'secret: has white space at its beginning or end: remove it'],
    ["'C2FVsBQIhrscChlQ'", 'secret: is in quotes, which are not part of it: remove them'],
    ['v1,whsec_C2FVsBQIhrscChlQ', 'secret: begins with v1, which is how a signature begins in webhook-signature'],
  ] as const) {
    it(`cannot be ${JSON.stringify(secret)}: the error says what was copied along, over HTTP and in code`, async () => {
      const { body: webhook } = await create({});
      const { webhooks } = live.gateway;
      const rotation = await live.call('POST', `/v1/webhooks/${webhook.id}/rotate_secret`, { secret });
      for (const error of [
        (await create({ secret })).body.error,
        rotation.body.error,
        await webhooks.create('usr_1', { url: receiver.url, events, secret }).catch((thrown) => thrown),
      ]) {
        expect(error).to.include({ code: 'invalid_value', param: 'secret' });
        expect(error.message).to.include(says).and.not.include('C2FVsBQIhrscChlQ');
      }
      await live.call('DELETE', `/v1/webhooks/${webhook.id}`);
    });
  }

  it('is generated where it is left out: 32 random bytes, shown once, in an answer that no cache may store', async () => {
    const made = [await create({}), await create({})];
    for (const { status, body, headers } of made) {
      expect(status).to.equal(201);
      expect(body.secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
      expect(Buffer.from(body.secret.slice('whsec_'.length), 'base64')).to.have.length(32);
      expect(headers.get('cache-control')).to.equal('no-store');
    }
    const [first, second] = made.map(({ body }) => body);
    expect(first.secret).not.to.equal(second.secret);
    for (const path of ['/v1/webhooks', `/v1/webhooks/${first.id}`]) {
      expect(JSON.stringify((await live.call('GET', path)).body)).not.to.include('whsec_');
    }
    expect(
      JSON.stringify((await live.call('PATCH', `/v1/webhooks/${first.id}`, { active: true })).body),
    ).not.to.include('whsec_');
    for (const { id } of [first, second]) await live.call('DELETE', `/v1/webhooks/${id}`);
  });

  it('is in no answer where the client has chosen it', async () => {
    const secret = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
    const { body } = await create({ secret });
    const rotated = await live.call('POST', `/v1/webhooks/${body.id}/rotate_secret`, { secret: `${secret}2` });
    expect(rotated.status).to.equal(200);
    for (const answer of [body, rotated.body]) {
      expect(answer).not.to.have.property('secret');
      expect(JSON.stringify(answer)).not.to.include(secret);
    }
    await live.call('DELETE', `/v1/webhooks/${body.id}`);
  });

  it('is also generated and shown by a rotation, and signs as Standard Webhooks specifies', async () => {
    const { body: webhook } = await create({});
    const { status, body, headers } = await live.call('POST', `/v1/webhooks/${webhook.id}/rotate_secret`, {
      overlap_seconds: 0,
    });
    expect([status, headers.get('cache-control')]).to.deep.equal([200, 'no-store']);
    expect(body.secret)
      .to.match(/^whsec_/)
      .and.not.equal(webhook.secret);
    await live.gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
    const [request] = await receiver.count(1);
    const { headers: sent, body: bytes } = request as Received;
    expect(verifySignature(bytes, String(sent['x-service-signature']), body.secret)).to.equal(true);
    const key = Buffer.from(body.secret.slice('whsec_'.length), 'base64');
    const content = `${sent['webhook-id']}.${sent['webhook-timestamp']}.${bytes}`;
    expect(sent['webhook-signature']).to.equal(`v1,${createHmac('sha256', key).update(content).digest('base64')}`);
  });
});
