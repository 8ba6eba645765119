import { expect } from 'chai';
import express from 'express';
import type { Connection } from 'mongoose';
import { keepRawBody } from '../../../src/index.ts';
import { createGateway, type LiveGateway, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { spec, specMethods } from '../../support/openapi.ts';

const eventTypes = {
  'order.shipped': {
    description: 'A parcel is on its way.',
    schema: { type: 'object' as const },
    example: { id: '1524831183200260097' },
  },
};

/** Sends text as the body of a request. */
async function send(url: string, key: string, operation: string, body: string) {
  const [method = '', path] = operation.split(' ');
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(url + path, { method, headers, body });
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  return { status: response.status, body: (await response.json()) as any };
}

/** Every operation that takes JSON and does not relay it. */
function storedOperations(): string[] {
  return Object.entries(spec.paths).flatMap(([path, item]) =>
    specMethods.flatMap((method) => {
      const operation = item[method];
      const takesJson = operation?.requestBody?.content['application/json'];
      if (!takesJson || operation['x-scope'] === 'models') return [];
      return [`${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, 'x')}`];
    }),
  );
}

describe('a number that JSON would change', () => {
  let live: LiveGateway;
  let webhook: string;
  before(async () => {
    live = await startGateway({ eventTypes });
    const events = ['order.shipped'];
    webhook = (await live.call('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hook', events })).body.id;
  });
  after(() => live.close());

  const refusal = async (operation: string, body: string) => {
    const { status, body: answer } = await send(live.url, live.key, operation, body);
    const { code, param } = answer.error ?? {};
    return [status, code, param];
  };

  it('is refused by every operation whose body is stored, signed or compared', async () => {
    const operations = storedOperations();
    expect(operations).to.include.members(['POST /v1/events', 'POST /v1/webhooks', 'PATCH /v1/webhooks/x']);
    for (const operation of operations) {
      const answer = await refusal(operation, '{"a":[{"n":9007199254740993}]}');
      expect(answer, operation).to.deep.equal([400, 'number_not_exact', 'a[0].n']);
    }
  });

  it('is refused in the data of an event, with its path, and nothing is stored', async () => {
    const event = (data: string) => `{"type":"order.shipped","user_id":"usr_1","data":${data}}`;
    for (const [data, param] of [
      ['{"id":1524831183200260097}', 'data.id'],
      ['{"items":[1,2,3,{"n":0.1000000000000000055}]}', 'data.items[3].n'],
      ['{"a":{"b":1e400}}', 'data.a.b'],
    ] as const) {
      expect(await refusal('POST /v1/events', event(data))).to.deep.equal([400, 'number_not_exact', param]);
    }
    expect((await live.call('GET', '/v1/events?type=order.shipped')).body.data).to.deep.equal([]);
    const kept = event('{"id":"1524831183200260097","n":[0.1,1.50,1e3,1.0,-0,100000000000000000000]}');
    const published = await send(live.url, live.key, 'POST /v1/events', kept);
    expect(published.status).to.equal(201);
    expect(published.body.data).to.deep.equal({ id: '1524831183200260097', n: [0.1, 1.5, 1000, 1, 0, 1e20] });
  });

  it('is refused in a test event and in the filters of a webhook', async () => {
    const test = `POST /v1/webhooks/${webhook}/test`;
    const data = '{"type":"order.shipped","data":{"id":9007199254740993}}';
    expect(await refusal(test, data)).to.deep.equal([400, 'number_not_exact', 'data.id']);
    const filters = '"filters":{"data.id":[1,1524831183200260097]}';
    const create = `{"url":"http://127.0.0.1:9/hook","events":["order.shipped"],${filters}}`;
    const expected = [400, 'number_not_exact', 'filters.data.id[1]'];
    expect(await refusal('POST /v1/webhooks', create)).to.deep.equal(expected);
    expect(await refusal(`PATCH /v1/webhooks/${webhook}`, `{${filters}}`)).to.deep.equal(expected);
  });

  it('is refused in code as a bigint, by name', async () => {
    const event = { type: 'order.shipped', userId: 'usr_1', data: { items: [{ id: 1524831183200260097n }] } } as const;
    const thrown = await live.gateway.publish(event).catch((error) => error);
    expect(thrown).to.include({ code: 'invalid_event_data', param: 'data.items[0].id' });
    expect(thrown.message).to.include('is a bigint, which cannot be sent as JSON: send it as a string');
    const filters = { 'data.id': [1524831183200260097n] } as never;
    const input = { url: 'http://127.0.0.1:9/hook', events: ['order.shipped'], filters };
    const refused = await live.gateway.webhooks.create('usr_1', input).catch((error) => error);
    expect(refused).to.include({ code: 'invalid_type', param: 'filters.data.id[0]' });
    expect(refused.message).to.include('is a bigint');
  });
});

describe("a number that JSON would change, behind the host's express.json()", () => {
  it('is refused where keepRawBody has kept the bytes', async () => {
    const database = await freshDatabase();
    const gateway = await createGateway({ mongo: database.connection as Connection, eventTypes });
    const { url, close } = await listen(express().use(express.json({ verify: keepRawBody }), gateway.router));
    const { key } = await gateway.keys.create({ userId: 'usr_1', scopes: ['events:publish'] });
    const body = '{"type":"order.shipped","user_id":"usr_1","data":{"id":1524831183200260097}}';
    const { status, body: answer } = await send(url, key, 'POST /v1/events', body);
    expect([status, answer.error.code]).to.deep.equal([400, 'number_not_exact']);
    await close();
    await gateway.close();
    await database.drop();
  });
});
