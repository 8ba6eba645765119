import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import type { AccountDocument } from '../../../src/accounting/model.ts';
import type { ModelGateway, ModelGatewayOptions } from '../../../src/index.ts';
import { connectionTimes } from '../../../src/mongo/connection/connection.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const question = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown> | undefined;
}

describe('a gateway whose database is unavailable', function () {
  this.timeout(60_000);
  let database: BreakableDatabase;
  let upstream: ScriptedUpstream;
  let beside: Connection;
  const ends: (() => Promise<unknown>)[] = [];

  before(async () => {
    database = await startBreakableDatabase();
    beside = await mongoose.createConnection(database.directUri).asPromise();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 } });
  });
  afterEach(async () => {
    database.proxy.pass();
    for (const end of ends.splice(0).reverse()) await end();
  });
  after(async () => {
    await upstream?.close();
    await beside?.close();
    await database?.stop();
  });

  async function start(collectionPrefix: string, options: Partial<ModelGatewayOptions> = {}) {
    const lines: Line[] = [];
    const log = (level: string) => (message: string, fields?: Record<string, unknown>) =>
      void lines.push({ level, message, fields });
    const gateway: ModelGateway = await createGateway({
      mongo: database.uri,
      upstreams: [{ name: 'u', baseUrl: upstream.baseUrl }],
      collectionPrefix,
      logger: { info: log('info'), warn: log('warn'), error: log('error') },
      ...options,
    });
    ends.push(gateway.close);
    await gateway.start();
    const { url, close } = await listen(express().use(gateway.router));
    ends.push(close);

    async function ask(key: string): Promise<{ status: number; code: string | undefined }> {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(question),
      });
      const { error } = (await response.json()) as { error?: { code: string } };
      return { status: response.status, code: error?.code };
    }
    const counted = () => beside.collection(`${collectionPrefix}usage`).countDocuments({ counted: true });
    /** Cuts every connection, and resolves when the gateway knows. */
    async function lose(key: string): Promise<void> {
      database.proxy.cut();
      const list = () => fetch(`${url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
      await until(async () => (await (await list()).text()).includes('nothing was done'));
    }
    return { gateway, lines, ask, counted, until, lose };
  }

  it('accepts keys that it has checked within keyGracePeriod, and no others', async () => {
    const { gateway, ask, lose } = await start('keys_', { keyGracePeriod: 6_000 });
    const [good, revoked, unseen] = await Promise.all(
      ['usr_1', 'usr_2', 'usr_3'].map((userId) => gateway.keys.create({ userId })),
    );
    if (!good || !revoked || !unseen) throw new Error('a key is missing');
    for (const { key } of [good, revoked]) expect((await ask(key)).status).to.equal(200);
    await gateway.keys.revoke(revoked.id);
    const checkedAt = performance.now();
    expect((await ask(good.key)).status).to.equal(200);
    await lose(good.key);
    expect(await ask(good.key)).to.deep.equal({ status: 200, code: undefined });
    expect(await ask(revoked.key)).to.deep.equal({ status: 401, code: 'invalid_api_key' });
    expect(await ask(`${good.key.slice(0, -1)}${good.key.endsWith('A') ? 'B' : 'A'}`)).to.include({ status: 401 });
    expect(await ask(unseen.key)).to.deep.equal({ status: 503, code: 'database_unavailable' });
    // measures time: until the grace period is over
    await sleep(Math.max(0, checkedAt + 7_000 - performance.now()));
    expect(await ask(good.key)).to.deep.equal({ status: 503, code: 'database_unavailable' });
  });

  it('accepts no key with keyGracePeriod 0', async () => {
    const { gateway, ask, lose } = await start('strict_', { keyGracePeriod: 0 });
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    expect((await ask(key)).status).to.equal(200);
    await lose(key);
    // a grace period would hold still
    await sleep(1_000);
    expect(await ask(key)).to.deep.equal({ status: 503, code: 'database_unavailable' });
  });

  it('keeps no more usage records than usageBacklog, and logs once how many were lost', async () => {
    const { gateway, ask, lose, lines, counted, until } = await start('usage_', { usageBacklog: 5 });
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    expect((await ask(key)).status).to.equal(200);
    await until(async () => (await counted()) === 1);
    await lose(key);
    for (let i = 0; i < 8; i += 1) expect((await ask(key)).status).to.equal(200);
    database.proxy.pass();
    await until(async () => (await counted()) === 1 + 5);
    await until(() => lines.some(({ message }) => message === 'usage records are written again'));
    const told = (part: string) => lines.filter(({ message }) => message.includes(part));
    expect(told('more usage records wait than usageBacklog allows')).to.have.lengthOf(1);
    expect(told('usage records are written again').map(({ fields }) => fields?.lost)).to.deep.equal([3]);
    expect(await beside.collection('usage_usage').countDocuments({})).to.equal(6);
  });

  it('lets an account spend the allowance that this process has leased, and no more', async () => {
    const credits = { prices: { '*': { input: 1_000_000 } }, initialBalance: 100, allowance: 3 };
    const { gateway, ask, lose, counted, until } = await start('credits_', { credits });
    const [rich, newcomer] = await Promise.all(['usr_1', 'usr_2'].map((userId) => gateway.keys.create({ userId })));
    if (!rich || !newcomer) throw new Error('a key is missing');
    const callsLetThrough = async (key: string) => {
      for (let n = 0; ; n += 1) {
        const { status, code } = await ask(key);
        if (status === 200) continue;
        expect({ status, code }).to.deep.equal({ status: 503, code: 'database_unavailable' });
        return n;
      }
    };
    expect((await ask(rich.key)).status).to.equal(200);
    const setAside = async () =>
      (await beside.collection<AccountDocument>('credits_credit_accounts').findOne({ _id: 'usr_1' }))?.leases[0];
    const first = await setAside();
    // known here, but not what it has
    await gateway.keys.authenticate(newcomer.key);
    await until(async () => (await counted()) === 1);
    // what was reserved for the call is set aside no longer: that was agreed on again since, and came to the allowance
    await until(async () => {
      const now = await setAside();
      return now?.amount === 3 * 1_000_000 && Number(now.until) > Number(first?.until);
    });
    await lose(rich.key);
    expect(await callsLetThrough(rich.key)).to.be.within(1, 3);
    expect(await callsLetThrough(newcomer.key)).to.equal(0);
    database.proxy.pass();
    await until(async () => (await ask(rich.key)).status === 200);
    await until(async () => (await ask(newcomer.key)).status === 200);
  });

  it('releases the reservation of a call whose usage record is lost', async () => {
    const credits = { prices: { '*': { input: 1_000_000 } }, initialBalance: 1_000, allowance: 100, renewInterval: 50 };
    const { gateway, ask, lose, counted, until } = await start('lost_', { credits, usageBacklog: 2 });
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    expect((await ask(key)).status).to.equal(200);
    await until(async () => (await counted()) === 1);
    await lose(key);
    for (let i = 0; i < 6; i += 1) expect((await ask(key)).status).to.equal(200);
    database.proxy.pass();
    await until(async () => (await counted()) === 1 + 2);
    const account = () => beside.collection<AccountDocument>('lost_credit_accounts').findOne({ _id: 'usr_1' });
    // what is set aside is what is reserved and an allowance
    await until(async () => (await account())?.leases[0]?.amount === 100 * 1_000_000);
    expect((await account())?.balance).to.equal((1_000 - 3) * 1_000_000);
  });

  it('closes within 35 seconds when the database stops answering', async () => {
    const { gateway, ask } = await start('close_', { drainTimeout: 0 });
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    database.proxy.swallow();
    expect((await ask(key)).status).to.be.oneOf([200, 503]);
    const startedAt = performance.now();
    await gateway.close();
    expect(performance.now() - startedAt).to.be.below(35_000);
  });

  it("logs at start which options a host's own connection lacks, and nothing when it lacks none", async () => {
    const slow = await mongoose.createConnection(database.uri).asPromise();
    const quick = await mongoose.createConnection(database.uri, connectionTimes).asPromise();
    const once = await mongoose
      .createConnection(database.uri, { ...connectionTimes, retryReads: false, retryWrites: false })
      .asPromise();
    ends.push(
      () => slow.close(),
      () => quick.close(),
      () => once.close(),
    );
    const about = ({ lines }: { lines: Line[] }) => lines.filter(({ message }) => message.startsWith('mongo:'));
    const [told, ...more] = about(await start('slow_', { mongo: slow }));
    expect(more).to.have.lengthOf(0);
    for (const [option, time] of Object.entries(connectionTimes))
      expect(told?.message).to.include(`${option}: ${time}`);
    expect(about(await start('quick_', { mongo: quick }))).to.deep.equal([]);
    const [untried] = about(await start('once_', { mongo: once }));
    expect(untried?.message).to.include('{ retryReads: true, retryWrites: true }');
  });
});
