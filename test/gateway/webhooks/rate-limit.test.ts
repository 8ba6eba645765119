import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';

describe('The rate limit of a webhook', () => {
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

  const create = (more: object) =>
    live.call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'], ...more });

  it('can be set, read, changed and removed', async () => {
    const { status, body } = await create({ rate_limit: 1000 });
    expect(status).to.equal(201);
    expect(body.rate_limit).to.equal(1000);
    const path = `/v1/webhooks/${body.id}`;
    expect((await live.call('GET', path)).body.rate_limit).to.equal(1000);
    expect((await live.call('PATCH', path, { rate_limit: 1 })).body.rate_limit).to.equal(1);
    expect((await live.call('PATCH', path, { rate_limit: null })).body).to.not.have.property('rate_limit');
    await live.call('DELETE', path);
  });

  for (const rate_limit of [0, 1001, 1.5, -1]) {
    it(`is refused when it is ${rate_limit}`, async () => {
      const { status, body } = await create({ rate_limit });
      expect(status).to.equal(400);
      expect(body.error.param).to.equal('rate_limit');
      expect(body.error.message).to.include('whole number from 1 to 1000');
      const given = { url: receiver.url, events: ['credits.low'], rateLimit: rate_limit };
      const refused = await live.gateway.webhooks.create('usr_1', given).catch((error) => error);
      expect(refused).to.include({ code: 'invalid_value', param: 'rate_limit' });
    });
  }

  it('also spaces test events and resends', async () => {
    const { body } = await create({ rate_limit: 4 });
    const path = `/v1/webhooks/${body.id}`;
    const test = () => live.call('POST', `${path}/test`, { type: 'credits.low' });
    // not from the first arrival: a busy receiver may have read it late
    const started = performance.now();
    const tests = await Promise.all([test(), test(), test()]);
    for (const { body: delivery } of tests) expect(delivery.state).to.equal('delivered');
    const resent = await Promise.all(tests.map(({ body: { id } }) => live.call('POST', `/v1/deliveries/${id}/resend`)));
    for (const { status } of resent) expect(status).to.equal(200);
    const times = receiver.received.map(({ at }) => at);
    expect(times).to.have.length(6);
    expect(Number(times.at(-1)) - started).to.be.at.least(5 * 250 - 5);
  });
});
