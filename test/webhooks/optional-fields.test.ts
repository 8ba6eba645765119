import { expect } from 'chai';
import type { NewWebhook, WebhookPatch } from '../../src/index.ts';
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
