import { expect } from 'chai';
import { addCustomEventTypes } from '../../../src/events/catalogue.ts';
import type { EventTypeOptions } from '../../../src/index.ts';
import { resolveOptions } from '../../../src/options/resolve.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { loadSpec, spec } from '../../support/openapi.ts';
import { until } from '../../support/until.ts';

const shipped: EventTypeOptions = {
  description: 'A parcel is on its way.',
  schema: {
    type: 'object',
    additionalProperties: false,
    required: ['order_id', 'weight'],
    properties: { order_id: { type: 'string' }, weight: { $ref: '#/$defs/grams' } },
    $defs: { grams: { type: 'integer', minimum: 1 } },
  },
  example: { order_id: 'ord_1', weight: 250 },
};

describe("a host's own event types", () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ eventTypes: { 'order.shipped': shipped } });
  });
  after(() => live.close());

  it('can be subscribed to, published and delivered', async () => {
    const bodies: string[] = [];
    const receiver = await listen(async (req, res) => {
      for await (const chunk of req) bodies.push(String(chunk));
      res.end();
    });
    const webhook = { url: receiver.url, events: ['order.shipped'], secret: 'long-enough' };
    expect((await live.call('POST', '/v1/webhooks', webhook)).status).to.equal(201);
    const data = { order_id: 'ord_2', weight: 9 };
    await live.gateway.publish({ type: 'order.shipped', userId: 'usr_1', data });
    await until(() => bodies.length > 0);
    expect(JSON.parse(bodies.join(''))).to.deep.include({ type: 'order.shipped', data });
    await receiver.close();
  });

  it('are validated with their schema when they are published', async () => {
    const body = { type: 'order.shipped', user_id: 'usr_1', data: { order_id: 'ord_2', weight: 0 } };
    const { status, body: answer } = await live.call('POST', '/v1/events', body);
    expect([status, answer.error.code, answer.error.param]).to.deep.equal([400, 'invalid_event_data', 'data.weight']);
  });

  it("are listed after the gateway's own event types", async () => {
    const { data } = (await live.call('GET', '/v1/event_types')).body;
    expect(data).to.have.length(9);
    const { description, schema, example } = shipped;
    expect(data[8]).to.deep.equal({ type: 'order.shipped', description, schema, example });
  });

  it('are unknown to a gateway that was not given them', async () => {
    const other = await startGateway();
    const webhook = { url: 'https://example.com/', events: ['order.shipped'], secret: 'long-enough' };
    const { body } = await other.call('POST', '/v1/webhooks', webhook);
    expect(body.error).to.include({ code: 'invalid_value', param: 'events[0]' });
    await other.close();
  });

  const refused: [param: string, types: unknown, says: RegExp][] = [
    ['eventTypes', ['order.shipped'], /must be an object/],
    ["eventTypes['Order']", { Order: shipped }, /lower-case words/],
    ["eventTypes['a.b']", { 'a.b': null }, /schema and example/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'string' } } }, /type: 'object'/],
    ["eventTypes['a.b'].example", { 'a.b': { ...shipped, example: 1 } }, /must be an object/],
    ["eventTypes['a.b'].examples", { 'a.b': { ...shipped, examples: [] } }, /is not an option/],
  ];
  for (const [param, eventTypes, says] of refused) {
    it(`are refused with invalid options: ${JSON.stringify(eventTypes)}`, () => {
      const options = { mongo: 'mongodb://x', secretKeys: [newSecretKey()], eventTypes: eventTypes as never };
      expect(() => resolveOptions(options))
        .to.throw(says)
        .with.property('param', param);
    });
  }

  const unsound: [param: string, types: Record<string, EventTypeOptions>, says: RegExp][] = [
    ["eventTypes['credits.low']", { 'credits.low': shipped }, /is already an event type of the gateway/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'object', requird: [] } } }, /requird/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'object', $ref: '#/nowhere' } } }, /nowhere/],
    ["eventTypes['a.b'].example", { 'a.b': { ...shipped, example: { order_id: 1, weight: 1 } } }, /data\.order_id/],
  ];
  for (const [param, types, says] of unsound) {
    it(`are refused when the gateway is created: ${param}, ${says.source}`, () => {
      expect(() => addCustomEventTypes(spec, types))
        .to.throw(says)
        .with.property('param', param);
    });
  }

  it('do not change the OpenAPI document that they are added to', () => {
    const spec = loadSpec();
    const before = JSON.stringify(spec);
    addCustomEventTypes(spec, { 'order.shipped': shipped });
    expect(JSON.stringify(spec)).to.equal(before);
  });
});
