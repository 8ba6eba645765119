import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';

describe('The headers of a webhook', () => {
  let live: LiveGateway;
  let receiver: TestReceiver;
  before(async () => {
    live = await startGateway();
    receiver = await startReceiver();
  });
  after(async () => {
    await live.close();
    await receiver.stop();
  });

  it('are sent with events, tests and resends, and no answer shows their values', async () => {
    const headers = { Authorization: 'Bearer canary-value', 'x-tenant': 'acme' };
    const made = await live.call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'], headers });
    expect(made.status).to.equal(201);
    expect(made.body.header_names).to.deep.equal(['authorization', 'x-tenant']);
    const path = `/v1/webhooks/${made.body.id}`;
    const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
    await live.gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
    await receiver.count(1);
    const tested = await live.call('POST', `${path}/test`, { type: 'credits.low' });
    const resent = await live.call('POST', `/v1/deliveries/${tested.body.id}/resend`);
    const received = await receiver.count(3);
    for (const request of received) {
      expect(request.headers).to.include({ authorization: 'Bearer canary-value', 'x-tenant': 'acme' });
      expect(request.headers).to.include({ 'content-type': 'application/json' });
      expect(request.headers).to.include.keys('x-service-signature', 'webhook-signature', 'webhook-id');
    }
    const answers = [made, tested, resent, await live.call('GET', path), await live.call('GET', '/v1/webhooks')];
    for (const { body } of answers) expect(JSON.stringify(body)).to.not.include('canary-value');

    const changed = await live.call('PATCH', path, { headers: null });
    expect(changed.body).to.not.have.property('header_names');
    await live.call('POST', `${path}/test`, { type: 'credits.low' });
    expect((await receiver.count(4)).at(-1)?.headers).to.not.have.any.keys('authorization', 'x-tenant');
  });

  it("cannot replace one of the gateway's own, and the error names the header", async () => {
    const headers = { 'Webhook-Id': 'evt_1' };
    const { status, body } = await live.call('POST', '/v1/webhooks', {
      url: receiver.url,
      events: ['credits.low'],
      headers,
    });
    expect(status).to.equal(400);
    expect(body.error).to.include({ code: 'invalid_value', param: 'headers.Webhook-Id' });
    expect(body.error.message).to.include('reserved for the gateway');
  });
});
