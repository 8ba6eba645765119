import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { checkedHeaders, type StaticHeaders } from '../../src/webhooks/optional-fields.ts';
import { watchedDatabase } from '../support/commands.ts';
import { valid, webhookService } from './support.ts';

const headers = { 'X-Api-Key': 'a-secret-value', authorization: 'Bearer another-secret' };
const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
const [k1, k2] = [keyOf('k1'), keyOf('k2')];

describe('the headers of a webhook', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  beforeEach(async () => {
    database = await watchedDatabase();
  });
  afterEach(() => database.drop());

  const serviceWith = async (...secretKeys: string[]) =>
    (await webhookService(database.connection, { secretKeys })).service;
  const stored = () => database.connection.collection('gateway_webhooks').findOne();

  it('are sealed in the database, and shown by name only', async () => {
    const service = await serviceWith(k1);
    const created = await service.create('usr_1', { ...valid, headers });
    expect(created.headerNames).to.deep.equal(['x-api-key', 'authorization']);
    const shown = [created, await service.get('usr_1', created.id), await service.list('usr_1'), await stored()];
    for (const value of shown) expect(JSON.stringify(value)).to.not.match(/a-secret-value|another-secret/);
    expect((await stored())?.headers).to.match(/^v1\.k1\./);
    const opened = await service.forDelivery(created.id);
    expect(opened?.headers).to.deep.equal({ 'x-api-key': 'a-secret-value', authorization: 'Bearer another-secret' });
  });

  it('are replaced as a whole, kept by other changes, and removed by an empty object', async () => {
    const service = await serviceWith(k1);
    const { id } = await service.create('usr_1', { ...valid, headers });
    expect((await service.update('usr_1', id, { active: false })).headerNames).to.have.length(2);
    expect((await service.update('usr_1', id, { headers: { 'x-one': '1' } })).headerNames).to.deep.equal(['x-one']);
    expect((await service.forDelivery(id))?.headers).to.deep.equal({ 'x-one': '1' });
    expect(await service.update('usr_1', id, { headers: {} })).to.not.have.property('headerNames');
    expect(await service.forDelivery(id)).to.not.have.property('headers');
    expect(await stored()).to.not.have.any.keys('headers', 'headerNames');
  });

  it('count among the uses of a key, and are sealed with the newest by resealing', async () => {
    const before = await serviceWith(k1);
    const { id } = await before.create('usr_1', { ...valid, headers });
    const service = await serviceWith(k2, k1);
    await service.rotateSecret('usr_1', id, { secret: 'another secret', overlapSeconds: 0 });
    expect((await stored())?.sealedWith).to.have.members(['k1', 'k2']);
    expect(await service.reseal()).to.deep.equal({ resealed: 1, unreadable: [] });
    expect((await stored())?.sealedWith).to.deep.equal(['k2']);
    const after = await serviceWith(k2);
    expect((await after.forDelivery(id))?.headers).to.include({ 'x-api-key': 'a-secret-value' });
    await before.update('usr_1', id, { headers });
    expect((await stored())?.sealedWith).to.have.members(['k1', 'k2']);
  });

  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`x-${i}`, 'v']));
  const wrong: [what: string, value: unknown, code: string, param: string][] = [
    ['a list', ['x-a'], 'invalid_type', 'headers'],
    ['eleven headers', eleven, 'invalid_value', 'headers'],
    ['a name with a space', { 'x a': 'v' }, 'invalid_value', 'headers'],
    ['a name with a line break', { 'x-a\r\nx-b': 'v' }, 'invalid_value', 'headers'],
    ['__proto__ as a name', JSON.parse('{"__proto__":"v"}'), 'invalid_value', 'headers'],
    ['a number as a value', { 'x-a': 1 }, 'invalid_type', 'headers.x-a'],
    ['an empty value', { 'x-a': '' }, 'invalid_value', 'headers.x-a'],
    ['a value with a line break', { 'x-a': 'v\r\nx-b: w' }, 'invalid_value', 'headers.x-a'],
    ['a value with a NUL', { 'x-a': 'v\0' }, 'invalid_value', 'headers.x-a'],
    ['a value that is not ASCII', { 'x-a': 'vé' }, 'invalid_value', 'headers.x-a'],
    ['a value of 1,025 characters', { 'x-a': 'v'.repeat(1_025) }, 'invalid_value', 'headers.x-a'],
    ['one name in two cases', { 'x-a': 'v', 'X-A': 'w' }, 'invalid_value', 'headers.X-A'],
    ...[
      'Content-Type',
      'content-length',
      'Host',
      'user-agent',
      'connection',
      'Transfer-Encoding',
      'webhook-id',
      'Webhook-Signature',
      'x-service-signature',
      'x-service-test',
      'accept-encoding',
      'expect',
      'Traceparent',
      'tracestate',
      'proxy-authorization',
      'get',
      'constructor',
    ].map((name): [string, unknown, string, string] => [
      `the name ${name}`,
      { [name]: 'v' },
      'invalid_value',
      `headers.${name}`,
    ]),
  ];
  for (const [what, value, code, param] of wrong) {
    it(`are refused with ${what}: ${code}`, () => {
      try {
        checkedHeaders(value as StaticHeaders);
      } catch (error) {
        expect(error).to.include({ code, param, status: 400 });
        return;
      }
      expect.fail('they were not refused');
    });
  }
});
