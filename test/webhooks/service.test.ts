import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { WebhookService } from '../../src/webhooks/service.ts';
import { watchedDatabase } from '../support/commands.ts';
import { newId } from '../support/ids.ts';
import { type StoredWebhooks, valid, webhookService, webhookServiceOf } from './support.ts';

let database: Awaited<ReturnType<typeof watchedDatabase>>;
let service: WebhookService;
let webhooks: StoredWebhooks;
let userId: string;

const thrown = (promise: Promise<unknown>) =>
  promise.then(
    () => ({ code: 'nothing was thrown' }),
    (error) => error,
  );
/** A published event, as far as it decides whom it goes to. */
const event = (user: string, type: string, data: unknown = {}) => ({
  userId: user,
  type,
  body: Buffer.from(JSON.stringify({ type, data })),
});
const stored = (id: string) => webhooks.collection.findOne({ _id: id as never });

describe('webhooks', () => {
  before(async () => {
    database = await watchedDatabase();
    ({ service, webhooks } = await webhookService(database.connection));
  });
  beforeEach(() => {
    userId = `usr_${randomBytes(6).toString('hex')}`;
    database.forget();
  });
  after(() => database.drop());

  describe('when they are created', () => {
    it('are active and have an id and a time', async () => {
      const { id, createdAt, ...rest } = await service.create(userId, valid);
      expect(id).to.match(/^wh_[0-9a-z]{26}$/);
      expect(createdAt.getTime()).to.be.closeTo(Date.now(), 5_000);
      expect(rest).to.deep.equal({ userId, url: valid.url, events: valid.events, active: true });
    });

    it('have their secret sealed in the database, for this webhook alone', async () => {
      const { id } = await service.create(userId, valid);
      const { id: other } = await service.create(userId, valid);
      const document = await stored(id);
      expect(JSON.stringify(document)).to.not.include(valid.secret);
      expect(document?.secret).to.match(/^v1\.k1\./);
      await webhooks.collection.updateOne({ _id: other as never }, { $set: { secret: document?.secret } });
      expect(await thrown(service.forDelivery(other))).to.include({ code: 'secret_unreadable' });
      expect(await service.forDelivery(id)).to.include({ secret: valid.secret });
    });

    const odd = { operator: { $ne: null }, expression: { $where: '1' }, proto: JSON.parse('{"__proto__":{"a":1}}') };
    const wrong: [field: 'url' | 'events' | 'secret', what: string, value: unknown, code: string, param?: string][] = [
      ['url', 'an operator', odd.operator, 'invalid_type'],
      ['url', '__proto__', '__proto__', 'invalid_value'],
      ['url', 'an object with __proto__', odd.proto, 'invalid_type'],
      ['url', 'port 0', 'https://example.com:0/', 'invalid_value'],
      ['url', 'a NUL', 'https://example.com/\0', 'invalid_value'],
      ['url', 'half a surrogate pair', 'https://example.com/\udfff', 'invalid_value'],
      ['url', 'a private address', 'https://[::ffff:10.0.0.1]/', 'url_not_allowed'],
      ['events', 'nothing', undefined, 'invalid_type'],
      ['events', 'a text', 'credits.low', 'invalid_type'],
      ['events', 'an operator', { $in: ['credits.low'] }, 'invalid_type'],
      ['events', 'an empty list', [], 'invalid_value'],
      ['events', 'a type twice', ['credits.low', 'usage.threshold', 'credits.low'], 'invalid_value', 'events[2]'],
      ['events', 'an unknown type', ['credits.low', 'credits.high'], 'unknown_event_type', 'events[1]'],
      ['events', 'an operator in the list', [{ $ne: null }], 'unknown_event_type', 'events[0]'],
      ['events', '__proto__ in the list', ['__proto__'], 'unknown_event_type', 'events[0]'],
      ['events', 'constructor in the list', ['constructor'], 'unknown_event_type', 'events[0]'],
      ['events', 'a NUL in the list', ['credits.low\0'], 'unknown_event_type', 'events[0]'],
      ['events', 'half a surrogate pair in the list', ['credits.low\ud800'], 'unknown_event_type', 'events[0]'],
      ['events', 'a hole in the list', [undefined, 'credits.low'], 'unknown_event_type', 'events[0]'],
      ['secret', 'null', null, 'invalid_type'],
      ['secret', 'a number', 12345678, 'invalid_type'],
      ['secret', 'one character repeated', 'a'.repeat(8), 'invalid_value'],
      ['secret', 'the longest, one character repeated', '𝄞'.repeat(256), 'invalid_value'],
      ['secret', 'a sequence', '12345678', 'invalid_value'],
      ['secret', 'a common word', 'Password1!', 'invalid_value'],
      ['secret', 'an operator', odd.operator, 'invalid_type'],
      ['secret', 'an expression', odd.expression, 'invalid_type'],
      ['secret', '7 characters', 'a'.repeat(7), 'invalid_value'],
      ['secret', '257 characters', 'a'.repeat(257), 'invalid_value'],
      ['secret', '4 characters of two code units each', '𝄞'.repeat(4), 'invalid_value'],
      ['secret', 'a NUL', 'secret-with-\0', 'invalid_value'],
      ['secret', 'half a surrogate pair', 'secret-with-\ud800', 'invalid_value'],
    ];
    for (const [field, what, value, code, param = field] of wrong) {
      it(`are refused with ${what} for ${field}: ${code}, and nothing is stored`, async () => {
        const error = await thrown(service.create(userId, { ...valid, [field]: value }));
        expect(error).to.include({ code, param, status: 400 });
        if (field === 'secret' && typeof value === 'string') expect(error.message).to.not.include(value);
        expect(database.commandsTo('gateway_webhooks')).to.deep.equal([]);
      });
    }

    const longest = Array.from({ length: 256 }, (_, i) => String.fromCodePoint(0x1d100 + ((i * 37) % 200))).join('');
    for (const secret of ['k3-Zq_9x', 'k3-Zq_9x'.repeat(32), longest, '__proto__', '{"$ne":null}', 'inner  spaces']) {
      it(`keep the secret '${secret.slice(0, 12)}' unchanged`, async () => {
        const { id } = await service.create(userId, { ...valid, secret });
        expect((await service.forDelivery(id))?.secret).to.equal(secret);
      });
    }

    for (const user of ['', 'u\0', 'u\ud800', 'u'.repeat(257), { $ne: null }, null] as string[]) {
      it(`are refused for the user ${JSON.stringify(user).slice(0, 20)}, in every operation`, async () => {
        const id = newId('wh', Date.now());
        const errors = await Promise.all(
          [
            service.create(user, valid),
            service.list(user),
            service.get(user, id),
            service.update(user, id, { active: false }),
            service.remove(user, id),
            service.subscribers(event(user, 'credits.low')),
          ].map(thrown),
        );
        for (const error of errors) expect(error).to.include({ code: 'invalid_value', param: 'userId' });
        expect(database.commandsTo('gateway_webhooks')).to.deep.equal([]);
      });
    }

    it('belong to a user called __proto__ as to any other', async () => {
      const { id } = await service.create('__proto__', valid);
      expect(await service.get('__proto__', id)).to.include({ userId: '__proto__' });
    });

    it('never exceed the limit of an account, however many requests come at once', async () => {
      const { service: few } = await webhookService(database.connection, { maxWebhooks: 5 });
      const results = await Promise.all(Array.from({ length: 20 }, () => thrown(few.create(userId, valid))));
      const codes = results.map(({ code }) => code);
      expect(codes.filter((code) => code === 'nothing was thrown')).to.have.length(5);
      expect(codes.filter((code) => code === 'webhook_limit_reached')).to.have.length(15);
      expect((await few.list(userId)).webhooks).to.have.length(5);
    });

    it('may be created again once one is deleted, and by other accounts at any time', async () => {
      const { service: one } = await webhookService(database.connection, { maxWebhooks: 1 });
      const { id } = await one.create(userId, valid);
      expect(await thrown(one.create(userId, valid))).to.include({ code: 'webhook_limit_reached', status: 403 });
      await one.create(`${userId}_other`, valid);
      await one.remove(userId, id);
      await one.create(userId, valid);
    });

    it('are kept where the limit was lowered, and none is added', async () => {
      for (let i = 0; i < 3; i += 1) await service.create(userId, valid);
      const { service: few } = await webhookService(database.connection, { maxWebhooks: 2 });
      expect(await thrown(few.create(userId, valid))).to.include({ code: 'webhook_limit_reached' });
      expect((await few.list(userId)).webhooks).to.have.length(3);
    });
  });

  describe('when they are listed', () => {
    it('come oldest first, only those of the account, page by page', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 5; i += 1) {
        ids.push((await service.create(userId, valid)).id);
        // ids are in the order of their milliseconds
        await sleep(2);
      }
      await service.create(`${userId}_other`, valid);

      const idsOf = async (page?: { limit?: number; after?: string }) => {
        const { webhooks: found, hasMore } = await service.list(userId, page);
        return { ids: found.map(({ id }) => id), hasMore };
      };
      const [first, second] = ids as [string, string];
      expect(await idsOf()).to.deep.equal({ ids, hasMore: false });
      expect(await idsOf({ limit: 5 })).to.deep.equal({ ids, hasMore: false });
      expect(await idsOf({ limit: 2 })).to.deep.equal({ ids: ids.slice(0, 2), hasMore: true });
      expect(await idsOf({ limit: 2, after: second })).to.deep.equal({ ids: ids.slice(2, 4), hasMore: true });
      expect(await idsOf({ limit: 3, after: second })).to.deep.equal({ ids: ids.slice(2), hasMore: false });
      expect(await idsOf({ after: ids.at(-1) as string })).to.deep.equal({ ids: [], hasMore: false });
      await service.remove(userId, first);
      expect(await idsOf({ limit: 1, after: first })).to.deep.equal({ ids: [second], hasMore: true });
    });

    it('are none for an account without any', async () => {
      expect(await service.list(userId)).to.deep.equal({ webhooks: [], hasMore: false });
    });

    for (const limit of [0, -1, 101, 1.5, Number.NaN, '10', { $gt: 0 }] as number[]) {
      it(`refuse the limit ${JSON.stringify(limit)}`, async () => {
        expect(await thrown(service.list(userId, { limit }))).to.include({ code: 'invalid_value', param: 'limit' });
      });
    }
    for (const after of ['', 'wh_', 'wh_\0', '__proto__', 'wh_\ud800', { $gt: '' }, null] as string[]) {
      it(`refuse a page after ${JSON.stringify(after)}`, async () => {
        expect(await thrown(service.list(userId, { after }))).to.include({ code: 'invalid_value', param: 'after' });
      });
    }

    it('come page by page although the host has switched sanitizeFilter on', async () => {
      const { id } = await service.create(userId, valid);
      const host = await watchedDatabase();
      try {
        host.connection.set('sanitizeFilter' as never, true);
        const theirs = (await webhookService(host.connection)).service;
        const older = await theirs.create(userId, valid);
        // ids are in the order of their milliseconds
        await sleep(2);
        const newer = await theirs.create(userId, valid);
        expect((await theirs.list(userId, { after: older.id })).webhooks).to.have.length(1);
        expect((await theirs.list(userId, { after: older.id })).webhooks[0]?.id).to.equal(newer.id);
        expect(await thrown(theirs.get(userId, id))).to.include({ code: 'webhook_not_found' });
      } finally {
        await host.drop();
      }
    });
  });

  describe('when they are changed', () => {
    it('take new types, pause and resume, and keep the rest', async () => {
      const created = await service.create(userId, valid);
      expect(await service.update(userId, created.id, { active: false })).to.deep.equal({ ...created, active: false });
      const changed = { ...created, events: ['usage.threshold'] };
      expect(await service.update(userId, created.id, { events: ['usage.threshold'], active: true })).to.deep.equal(
        changed,
      );
      expect(await service.get(userId, created.id)).to.deep.equal({ ...changed, rotation: null, disabled: null });
      expect((await service.forDelivery(created.id))?.secret).to.equal(valid.secret);
    });

    it('stay the same when they are changed to the values they have', async () => {
      const created = await service.create(userId, valid);
      const before = await stored(created.id);
      expect(await service.update(userId, created.id, { active: true, events: valid.events })).to.deep.equal(created);
      expect(await stored(created.id)).to.deep.equal(before);
    });

    const wrong: [what: string, patch: unknown, code: string, param: string | null][] = [
      ['nothing', {}, 'missing_required_parameter', null],
      ['unknown fields alone', { url: 'https://example.org' }, 'missing_required_parameter', null],
      ['no types', { events: [] }, 'invalid_value', 'events'],
      ['null for types', { events: null }, 'invalid_type', 'events'],
      ['an operator for types', { events: { $push: 'credits.low' } }, 'invalid_type', 'events'],
      ['an unknown type', { events: ['__proto__'] }, 'unknown_event_type', 'events[0]'],
      ['a text for active', { active: 'false' }, 'invalid_type', 'active'],
      ['null for active', { active: null }, 'invalid_type', 'active'],
      ['an operator for active', { active: { $ne: true } }, 'invalid_type', 'active'],
    ];
    for (const [what, patch, code, param] of wrong) {
      it(`refuse a change with ${what}: ${code}`, async () => {
        const { id } = await service.create(userId, valid);
        expect(await thrown(service.update(userId, id, patch as object))).to.include({ code, param, status: 400 });
      });
    }

    it('take no field other than events and active', async () => {
      const { id } = await service.create(userId, valid);
      const before = await stored(id);
      const patch = JSON.parse(
        '{"active":false,"userId":"usr_evil","slot":1,"secret":"x","$set":{"url":"x"},"__proto__":{}}',
      );
      await service.update(userId, id, patch);
      expect(await stored(id)).to.deep.equal({ ...before, active: false });
    });
  });

  describe('when they belong to another account, were deleted or never existed', () => {
    it('are not found, with the same message', async () => {
      const { id: foreign } = await service.create(`${userId}_other`, valid);
      const { id: gone } = await service.create(userId, valid);
      await service.remove(userId, gone);
      const odd = ['', 'wh_', '__proto__', 'wh_\0', 'wh_\ud800', 'x'.repeat(5_000), { $ne: null }, null] as string[];
      for (const id of [foreign, gone, newId('wh', Date.now()), ...odd]) {
        const errors = [
          await thrown(service.get(userId, id)),
          await thrown(service.update(userId, id, { active: false })),
          await thrown(service.remove(userId, id)),
        ];
        for (const error of errors) {
          expect(error).to.include({ code: 'webhook_not_found', status: 404, param: 'id' });
          expect(error.message).to.equal(`No webhook ${id} is in this account; GET /v1/webhooks lists those that are`);
        }
      }
      expect(await service.get(`${userId}_other`, foreign)).to.include({ active: true });
    });
  });

  describe('when an event is published', () => {
    async function found(published: Parameters<typeof service.subscribers>[0]) {
      const { targets, skipped } = await service.subscribers(published);
      return { targets, skipped };
    }

    it('receive it if they are subscribed and active, and are listed as skipped if they are inactive', async () => {
      const both = await service.create(userId, valid);
      // ids are in the order of their milliseconds
      await sleep(2);
      const paused = await service.create(userId, { ...valid, events: ['credits.low'] });
      await service.update(userId, paused.id, { active: false });
      // ids are in the order of their milliseconds
      await sleep(2);
      const low = await service.create(userId, { ...valid, events: ['credits.low'] });
      await service.create(`${userId}_other`, valid);

      expect(await found(event(userId, 'credits.low'))).to.deep.equal({
        targets: [both.id, low.id],
        skipped: [paused.id],
      });
      expect(await found(event(userId, 'payment.completed'))).to.deep.equal({
        targets: [both.id],
        skipped: [],
      });
      for (const type of ['usage.threshold', 'nothing', '__proto__', 'credits.low\0', { $ne: null }] as string[]) {
        expect(await found(event(userId, type))).to.deep.equal({ targets: [], skipped: [] });
      }
    });

    /** How the server answers a look-up that was sent to it. */
    async function planOf({ command }: { command: Record<string, unknown> }): Promise<string> {
      const { find, filter, projection, sort, limit } = command;
      const explain = {
        find,
        filter,
        ...(projection !== undefined && { projection }),
        sort,
        ...(limit !== undefined && { limit }),
      };
      const plan = await database.connection.db?.command({ explain });
      return JSON.stringify(plan?.queryPlanner.winningPlan);
    }

    it('are found by one query by an index, which reads them whole for their first attempts', async () => {
      const { id } = await service.create(userId, valid);
      database.forget();
      const { target } = await service.subscribers(event(userId, 'credits.low'));
      expect(target(id)).to.deep.equal(await service.forDelivery(id));
      const [lookUp, ...others] = database.commandsTo('gateway_webhooks');
      expect(others).to.have.length(1);
      const text = await planOf(lookUp as { command: Record<string, unknown> });
      expect(text).to.include('"stage":"IXSCAN"');
      expect(text).to.not.match(/COLLSCAN|"SORT"/);
    });

    it('are found by a query that reads nothing but the index if they are more than 50, or in a transaction', async () => {
      const { id } = await service.create(userId, valid);
      const stored = await webhooks.collection.findOne({ _id: id as never });
      const many = Array.from({ length: 50 }, (_, i) => ({ ...stored, _id: `${id}${i}`, slot: 100 + i }));
      await webhooks.collection.insertMany(many as never[]);
      database.forget();
      const { targets, target } = await service.subscribers(event(userId, 'credits.low'));
      expect(targets).to.have.length(51);
      expect(target(id)).to.equal(undefined);
      const session = await database.connection.startSession();
      const inTransaction = await session.withTransaction(() =>
        service.subscribersIn(session, event(userId, 'credits.low')),
      );
      await session.endSession();
      expect(inTransaction.targets).to.deep.equal(targets);
      const [whole, ...byIndex] = database.commandsTo('gateway_webhooks');
      expect(whole?.command).to.include({ limit: 51 });
      expect(byIndex).to.have.length(2);
      for (const lookUp of byIndex) {
        const text = await planOf(lookUp as { command: Record<string, unknown> });
        expect(text).to.include('"indexName":"filteredSubscribers"');
        expect(text).to.not.match(/FETCH|COLLSCAN|"SORT"/);
      }
    });

    it('are looked up in the transaction of the caller', async () => {
      const { id } = await service.create(userId, valid);
      const session = await database.connection.startSession();
      session.startTransaction();
      await webhooks.collection.updateOne({ _id: id as never }, { $set: { active: false } }, { session });
      expect(await service.subscribersIn(session, event(userId, 'credits.low'))).to.deep.equal({
        targets: [],
        skipped: [id],
      });
      expect(await found(event(userId, 'credits.low'))).to.deep.equal({ targets: [id], skipped: [] });
      await session.abortTransaction();
      await session.endSession();
    });

    it('are remembered by type, with their filters, until this process changes one of the account', async () => {
      const filters = { 'data.currency': ['usd'] };
      const { id } = await service.create(userId, { ...valid, filters });
      const low = (currency: string) => event(userId, 'credits.low', { currency });
      expect(service.recentSubscribers(low('usd'))).to.equal(undefined);
      await found(low('eur'));
      expect(service.recentSubscribers(low('usd'))).to.deep.equal({ targets: [id], skipped: [] });
      expect(service.recentSubscribers(low('eur'))).to.deep.equal({ targets: [], skipped: [] });
      expect(service.recentSubscribers(event(userId, 'payment.completed'))).to.equal(undefined);

      const { service: other } = await webhookService(database.connection);
      await other.update(userId, id, { active: false });
      expect(service.recentSubscribers(low('usd'))).to.deep.equal({ targets: [id], skipped: [] });
      for (const change of [
        () => service.update(userId, id, { active: true }),
        () => service.create(userId, valid),
        () => service.remove(userId, id),
      ]) {
        await found(low('usd'));
        await service.create(`${userId}_other`, valid);
        expect(service.recentSubscribers(low('usd'))).not.to.equal(undefined);
        await change();
        expect(service.recentSubscribers(low('usd'))).to.equal(undefined);
      }
    });

    it('are remembered within 4 MiB: of a flood of accounts, the last ones', async () => {
      const { id } = await service.create(userId, valid);
      const stored = await webhooks.collection.findOne({ _id: id as never });
      // 200 KB in memory
      const filters = JSON.stringify({ 'data.currency': ['x'.repeat(100_000)] });
      const accounts = Array.from({ length: 40 }, (_, i) => `${userId}_${i}`);
      const many = accounts.map((account) => ({ ...stored, _id: `${id}${account}`, userId: account, filters }));
      await webhooks.collection.insertMany(many as never[]);
      for (const account of accounts) await found(event(account, 'credits.low'));
      const known = accounts.filter((account) => service.recentSubscribers(event(account, 'credits.low')));
      expect(known).to.deep.equal(accounts.slice(-20));
    });

    it('are given to the delivery with their opened secret, while they exist', async () => {
      const { id } = await service.create(userId, valid);
      const { url, events, secret } = valid;
      const webhook = { id, userId, url, events, active: true };
      expect(await service.forDelivery(id)).to.deep.equal({ ...webhook, secret, rotation: null });
      await service.remove(userId, id);
      for (const none of [id, 'wh_', '', { $ne: null }, null] as string[]) {
        expect(await service.forDelivery(none)).to.equal(null);
        expect(await service.urlOf(none)).to.equal(null);
      }
    });

    it('cannot be delivered to when the key of their secret is missing, and the error names the key', async () => {
      const { id } = await service.create(userId, valid);
      const secretKeys = [`k2:${randomBytes(32).toString('base64')}`];
      const { service: other } = await webhookService(database.connection, { secretKeys });
      const error = await thrown(other.forDelivery(id));
      expect(error).to.include({ code: 'secret_unreadable' });
      expect(error.message).to.include("'k1'");
      // whoever looks for the reason still finds where the deliveries go
      expect(await other.urlOf(id)).to.equal(valid.url);
    });
  });

  it('are written to a majority and the journal, and read from the primary, whatever the host’s connection says', async () => {
    const host = await watchedDatabase({ w: 1, journal: false, readPreference: 'secondaryPreferred' });
    try {
      const theirs = (await webhookService(host.connection)).service;
      host.forget();
      const { id } = await theirs.create(userId, valid);
      await theirs.update(userId, id, { active: false });
      await theirs.list(userId);
      await theirs.subscribers(event(userId, 'credits.low'));
      await theirs.remove(userId, id);
      const seen = host.commandsTo('gateway_webhooks');
      const writes = seen.filter(({ name }) => name !== 'find');
      expect(writes.map(({ name }) => name)).to.deep.equal(['insert', 'findAndModify', 'delete']);
      for (const { command } of writes) expect(command.writeConcern).to.deep.equal({ w: 'majority', j: true });
      const reads = seen.filter(({ name }) => name === 'find');
      for (const { command } of reads)
        expect(command.$readPreference ?? { mode: 'primary' }).to.deep.equal({ mode: 'primary' });
    } finally {
      await host.drop();
    }
  });

  it('keep their collections apart by prefix, and share one model where two gateways share the prefix', () => {
    expect(webhookServiceOf(database.connection).webhooks).to.equal(webhooks);
    const { webhooks: other } = webhookServiceOf(database.connection, { prefix: 'other_' });
    expect(other).to.not.equal(webhooks);
    expect(other.collection.collectionName).to.equal('other_webhooks');
  });

  it('cannot be looked up by a field that does not exist, nor given one', async () => {
    expect(await thrown(webhooks.find({ usrId: userId } as never).exec())).to.have.property('name', 'StrictModeError');
    const update = webhooks.updateMany({ userId }, { $set: { colour: 'red' } } as never).exec();
    expect(await thrown(update)).to.have.property('name', 'StrictModeError');
  });
});
