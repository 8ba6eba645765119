import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Filters, NewWebhook, WebhookPatch } from '../../src/index.ts';
import { passes, toStored, toStoredHeaders } from '../../src/webhooks/optional-fields.ts';
import type { WebhookService } from '../../src/webhooks/service.ts';
import { watchedDatabase } from '../support/commands.ts';
import { valid, webhookService } from './support.ts';

const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => ({ code: 'nothing was thrown' }),
    (error) => error,
  );

const fields = {
  description: 'Tells accounting of payments',
  metadata: { team: 'accounting', 'a.b': '$dollar', $set: '' },
  filters: { 'data.currency': ['usd', 'eur'] },
};

describe('the optional fields of a webhook', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let service: WebhookService;
  before(async () => {
    database = await watchedDatabase();
    ({ service } = await webhookService(database.connection));
  });
  after(() => database.drop());

  it('are returned as they were given, by creation, reading, list and change', async () => {
    const created = await service.create('usr_given', { ...valid, ...fields });
    expect(created).to.deep.include(fields);
    expect(await service.get('usr_given', created.id)).to.deep.include(fields);
    expect((await service.list('usr_given')).webhooks).to.deep.equal([created]);
    expect(await service.update('usr_given', created.id, { active: false })).to.deep.equal({
      ...created,
      active: false,
    });
  });

  it('are absent where they are not set, or empty', async () => {
    const plain = await service.create('usr_plain', valid);
    expect(plain).to.have.all.keys('id', 'userId', 'url', 'events', 'active', 'createdAt');
    const empty = await service.create('usr_plain', { ...valid, description: '', metadata: {}, filters: {} });
    expect(empty).to.have.all.keys('id', 'userId', 'url', 'events', 'active', 'createdAt');
  });

  it('are replaced one by one, and removed by null or an empty value', async () => {
    const created = await service.create('usr_1', { ...valid, ...fields });
    const change = (patch: WebhookPatch) => service.update('usr_1', created.id, patch);
    const described = { ...created, description: '$active' };
    expect(await change({ description: '$active' })).to.deep.equal(described);
    expect(await change({ metadata: { other: '1' } })).to.deep.equal({ ...described, metadata: { other: '1' } });
    const { metadata: _, ...unnoted } = described;
    expect(await change({ metadata: {} })).to.deep.equal(unnoted);
    const { filters: __, ...unfiltered } = unnoted;
    expect(await change({ filters: null })).to.deep.equal(unfiltered);
    const { description: ___, ...bare } = unfiltered;
    expect(await change({ description: '' })).to.deep.equal(bare);
  });

  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v']));
  const wrong: [what: string, given: unknown, code: string, param: string][] = [
    ['a number for the description', { description: 1 }, 'invalid_type', 'description'],
    ['a description of 501 characters', { description: '𝄞'.repeat(501) }, 'invalid_value', 'description'],
    ['a NUL in the description', { description: 'a\0' }, 'invalid_value', 'description'],
    ['a list for the metadata', { metadata: ['team'] }, 'invalid_type', 'metadata'],
    ['17 pairs of metadata', { metadata: many }, 'invalid_value', 'metadata'],
    ['a key of 65 characters', { metadata: { ['k'.repeat(65)]: 'v' } }, 'invalid_value', 'metadata'],
    ['an empty key', { metadata: { '': 'v' } }, 'invalid_value', 'metadata'],
    ['a number in the metadata', { metadata: { team: 1 } }, 'invalid_type', 'metadata.team'],
    ['a value of 513 characters', { metadata: { team: 'v'.repeat(513) } }, 'invalid_value', 'metadata.team'],
    ['half a surrogate pair in the metadata', { metadata: { team: '\ud800' } }, 'invalid_value', 'metadata.team'],
  ];
  for (const [what, given, code, param] of wrong) {
    it(`are refused with ${what}: ${code}`, async () => {
      const { id } = await service.create('usr_1', valid);
      const input = given as Partial<NewWebhook>;
      expect(await rejection(service.create('usr_1', { ...valid, ...input }))).to.include({ code, param, status: 400 });
      expect(await rejection(service.update('usr_1', id, input))).to.include({ code, param, status: 400 });
    });
  }

  it('keep a metadata key called __proto__ as any other', async () => {
    const metadata = JSON.parse('{"__proto__":"a","constructor":"b"}');
    const { id } = await service.create('usr_1', { ...valid, metadata });
    const kept = (await service.get('usr_1', id)).metadata;
    expect(Object.entries(kept ?? {})).to.deep.equal([
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ]);
  });

  it('have filters that choose the webhooks of an event, within a single query', async () => {
    const large = await service.create('usr_2', { ...valid, filters: { 'data.amount': [20, 30] } });
    const all = await service.create('usr_2', valid);
    const paused = await service.create('usr_2', { ...valid, filters: { 'data.currency': ['usd'] } });
    await service.update('usr_2', paused.id, { active: false });
    const subscribers = async (data: unknown) => {
      const body = Buffer.from(JSON.stringify({ id: 'evt_1', data }));
      const { targets, skipped } = await service.subscribers({ userId: 'usr_2', type: 'payment.completed', body });
      return { targets, skipped };
    };
    expect(await subscribers({ amount: 20, currency: 'usd' })).to.deep.equal({
      targets: [large.id, all.id].sort(),
      skipped: [paused.id],
    });
    database.forget();
    expect(await subscribers({ amount: 21, currency: 'eur' })).to.deep.equal({ targets: [all.id], skipped: [] });
    expect(database.commandsTo('gateway_webhooks').map(({ name }) => name)).to.deep.equal(['find']);
  });
});

/** The error that these filters are refused with. */
function refusalOf(filters: unknown) {
  try {
    toStored({ filters: filters as Filters });
  } catch (error) {
    return error as Error;
  }
  throw new Error('they were not refused');
}

describe('the filters of a webhook', () => {
  const data = { model: 'gpt-5', amount: 20, paid: true, none: null, list: ['gpt-5'], customer: { country: 'de' } };
  const event = JSON.parse(JSON.stringify({ id: 'evt_1', type: 'payment.completed', data }));

  const cases: [what: string, filters: Filters, passed: boolean][] = [
    ['the value', { 'data.model': ['gpt-5'] }, true],
    ['one of the values', { 'data.model': ['gpt-4', 'gpt-5'] }, true],
    ['none of the values', { 'data.model': ['gpt-4'] }, false],
    ['a value that only begins alike', { 'data.model': ['gpt'] }, false],
    ['a value of another case', { 'data.model': ['GPT-5'] }, false],
    ['a number', { 'data.amount': [20] }, true],
    ['a number as a text', { 'data.amount': ['20'] }, false],
    ['a boolean', { 'data.paid': [true] }, true],
    ['the other boolean', { 'data.paid': [false] }, false],
    ['a field of an object', { 'data.customer.country': ['de', 'at'] }, true],
    ['every path', { 'data.model': ['gpt-5'], 'data.amount': [20] }, true],
    ['all paths but one', { 'data.model': ['gpt-5'], 'data.amount': [21] }, false],
    ['a path that the event does not have', { 'data.other': ['gpt-5'] }, false],
    ['a path through a text', { 'data.model.length': [5] }, false],
    ['a path through a list', { 'data.list.0': ['gpt-5'] }, false],
    ['a path through null', { 'data.none.x': ['gpt-5'] }, false],
    ['an object', { 'data.customer': ['[object Object]'] }, false],
    ['null', { 'data.none': ['null'] }, false],
    ['what every object inherits', { 'data.constructor.name': ['Object'] }, false],
    ['the prototype', { 'data.__proto__.model': ['gpt-5'] }, false],
  ];
  for (const [what, wanted, passed] of cases) {
    it(`${passed ? 'let through' : 'hold back'} an event with ${what}`, () => {
      expect(passes(JSON.parse(String(toStored({ filters: wanted }).filters)), event)).to.equal(passed);
    });
  }

  it('let every event through when there are none', () => {
    expect(toStored({ filters: null }).filters).to.equal(null);
    expect(toStored({ filters: {} }).filters).to.equal(null);
    expect(passes({}, event)).to.equal(true);
  });

  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`data.f${i}`, [i]]));
  const wrong: [what: string, value: unknown, code: string, param: string, says: string][] = [
    ['a list', ['data.model'], 'invalid_type', 'filters', '{"data.model": ["gpt-5"]}'],
    ['a text', 'data.model', 'invalid_type', 'filters', 'object'],
    ['eleven paths', eleven, 'invalid_value', 'filters', 'at most 10 paths'],
    [
      'a path outside the data',
      { model: ['gpt-5'] },
      'invalid_value',
      'filters',
      "'model' must be a path into the data",
    ],
    ['no field', { data: ['gpt-5'] }, 'invalid_value', 'filters', 'such as data.model'],
    ['an empty field', { 'data..model': ['x'] }, 'invalid_value', 'filters', 'such as data.model'],
    ['__proto__ as a path', JSON.parse('{"__proto__":["x"]}'), 'invalid_value', 'filters', "'__proto__'"],
    ['a path of 201 characters', { [`data.${'x'.repeat(196)}`]: ['x'] }, 'invalid_value', 'filters', '200 characters'],
    ['a value that is no list', { 'data.model': 'gpt-5' }, 'invalid_type', 'filters.data.model', 'array'],
    ['no values', { 'data.model': [] }, 'invalid_value', 'filters.data.model', '1 to 50 values'],
    ['51 values', { 'data.n': Array.from({ length: 51 }, (_, i) => i) }, 'invalid_value', 'filters.data.n', '1 to 50'],
    ['an object as a value', { 'data.model': ['x', { $ne: 1 }] }, 'invalid_type', 'filters.data.model[1]', 'string'],
    ['null as a value', { 'data.model': [null] }, 'invalid_type', 'filters.data.model[0]', 'boolean'],
    ['no finite number', { 'data.amount': [Number.NaN] }, 'invalid_type', 'filters.data.amount[0]', 'number'],
    ['a bigint', { 'data.id': [1, 9007199254740993n] }, 'invalid_type', 'filters.data.id[1]', 'send it as a string'],
    ['a long value', { 'data.model': ['x'.repeat(257)] }, 'invalid_value', 'filters.data.model[0]', '256 characters'],
    [
      'too much in all',
      { 'data.model': Array.from({ length: 20 }, (_, i) => String(i).padEnd(250, 'x')) },
      'invalid_value',
      'filters',
      'at most 4096 bytes as JSON',
    ],
  ];
  for (const [what, value, code, param, says] of wrong) {
    it(`are refused with ${what}, and the error names the fix: ${code}`, () => {
      const error = refusalOf(value);
      expect(error).to.include({ code, param, status: 400 });
      expect(error.message).to.include(says);
    });
  }
});

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
        toStoredHeaders(value as Record<string, string>, (json) => json);
      } catch (error) {
        expect(error).to.include({ code, param, status: 400 });
        return;
      }
      expect.fail('they were not refused');
    });
  }
});
