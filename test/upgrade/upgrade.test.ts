import { readdirSync, readFileSync } from 'node:fs';
import { expect } from 'chai';
import type { ModelGateway } from '../../src/index.ts';
import { verifySignature } from '../../src/receiver/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { createGateway } from '../support/gateway.ts';
import { type Listening, listen } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { packageVersion } from '../support/version.ts';
import { type Fixture, fixtureFixed, fixtureOptions, prefix, restore } from './fixture.ts';

const folder = new URL('fixtures/', import.meta.url);
/** Longer than the wait of the delivery that is to be tried again. */
const twoHours = 7_200_000;

type Row = Readonly<Record<string, never>> & { readonly _id: string; readonly userId: string };

for (const file of readdirSync(folder)) {
  describe(`A database that version ${file.replace('.json', '')} wrote`, () => {
    let database: Awaited<ReturnType<typeof freshDatabase>>;
    let receiver: TestReceiver;
    let fixture: Fixture;
    let gateway: ModelGateway;
    let server: Listening;

    before(async () => {
      database = await freshDatabase();
      receiver = await startReceiver(200);
      const text = readFileSync(new URL(file, folder), 'utf8');
      fixture = await restore(database.connection, text, new URL(receiver.url).origin, twoHours);
      const secretKeys = [fixture.secretKey];
      gateway = await createGateway({
        ...fixtureOptions,
        fixed: fixtureFixed,
        mongo: database.connection,
        secretKeys,
      });
      server = await listen((req, res) => gateway.router(req, res));
    });
    after(async () => {
      await server.close();
      await gateway.close();
      await receiver.stop();
      await database.drop();
    });

    const rows = (name: string) =>
      (fixture.collections[name] as readonly Row[]).filter(({ userId = 'usr_1' }) => userId === 'usr_1');
    const ids = (name: string) => rows(name).map(({ _id }) => _id);
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    async function get(path: string): Promise<any> {
      const response = await fetch(`${server.url}/v1${path}`, {
        headers: { authorization: `Bearer ${fixture.apiKey}` },
      });
      expect({ path, status: response.status }).to.deep.equal({ path, status: 200 });
      return response.json();
    }
    const listed = async (path: string) => (await get(path)).data.map(({ id }: { id: string }) => id);

    it('shows its keys, webhooks, events, deliveries and recoveries in the API', async () => {
      for (const [name, path] of [
        ['keys', '/api_keys'],
        ['webhooks', '/webhooks'],
        ['deliveries', '/deliveries'],
      ] as const) {
        expect(ids(name)).to.not.deep.equal([]);
        expect(await listed(`${path}?limit=100`)).to.include.members(ids(name));
      }
      for (const id of ids('webhooks')) await get(`/webhooks/${id}`);
      for (const id of ids('deliveries')) await get(`/deliveries/${id}`);
      for (const id of ids('events')) await get(`/events/${id}`);
      for (const { _id, webhookId } of rows('recoveries')) await get(`/webhooks/${webhookId}/recoveries/${_id}`);
      for (const id of ids('webhooks')) await get(`/webhooks/${id}/stats`);
    });

    it('shows what upstreams keep for its accounts', async () => {
      const { data, totals } = await get('/stored_objects');
      expect(data.map(({ id }: { id: string }) => id)).to.have.members(ids('stored'));
      expect(data[0]).to.include({ name: null, bytes: null, model: 'demo' });
      expect(totals.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).to.equal(data.length);
    });

    it('shows its credit balance, usage and budgets', async () => {
      const booked = rows('credit_ledger').reduce((sum, { amount }) => sum + Number(amount), 0);
      expect((await gateway.credits?.balance('usr_1'))?.creditsRemaining).to.equal(booked / 1e6);
      const used = rows('usage_counters').reduce((sum, { requests }) => sum + Number(requests), 0);
      const [start, end] = [new Date(fixture.writtenAt.getTime() - 86_400_000), fixture.writtenAt];
      const report = await get(`/usage?from=${start.toISOString().slice(0, 10)}&to=${end.toISOString().slice(0, 10)}`);
      expect(report.data.reduce((sum: number, line: { requests: number }) => sum + line.requests, 0)).to.equal(used);
      expect((await get('/budgets')).data).to.have.length.above(0);
    });

    it('has its due deliveries made, signed with its stored secrets', async () => {
      const active = rows('webhooks').filter((webhook) => webhook.active);
      const isDue = ({ state, webhookId }: Row) => state === 'pending' && active.some(({ _id }) => _id === webhookId);
      const retries = rows('deliveries').filter(isDue);
      const unsent = rows('events').filter(({ fanOut }) => fanOut === 'pending');
      expect([retries.length, unsent.length]).to.satisfy((counts: number[]) => counts.every((count) => count > 0));
      await gateway.start();
      const due = [...retries.map(({ eventId }) => eventId), ...unsent.map(({ _id }) => _id)];
      for (const eventId of due) {
        await until(async () => {
          const { data } = await get(`/deliveries?event_id=${eventId}`);
          return data.length > 0 && data.every(({ state }: { state: string }) => state === 'delivered');
        });
      }
      for (const { body, headers } of receiver.received) {
        expect(verifySignature(body, headers, fixture.webhookSecret)).to.equal(true);
      }
    });

    it('has a document of every collection that the version had', async () => {
      const names = (await database.connection.listCollections()).map(({ name }) => name.slice(prefix.length));
      const filled = Object.entries(fixture.collections).filter(([, documents]) => documents.length > 0);
      // a collection that a later version adds is in the fixtures from that version on
      const had =
        fixture.packageVersion === packageVersion ? names : names.filter((name) => name in fixture.collections);
      expect(filled.map(([name]) => name)).to.include.members(had);
    });
  });
}
