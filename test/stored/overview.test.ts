import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { spec } from '../support/openapi.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';

interface List {
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the fields it asks for
  readonly data: readonly any[];
  readonly has_more: boolean;
  readonly totals: readonly { readonly kind: string; readonly count: number; readonly bytes: number | null }[];
}

const { enum: kinds } = spec.components.schemas.StoredObjectKind as { enum: string[] };

describe('What an account keeps', () => {
  let provider: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  let client: OpenAI;
  let strangersKey: string;
  let adminKey: string;

  before(async () => {
    provider = await FileProvider.start();
    database = await freshDatabase();
    gateway = await startGateway({
      mongo: database.connection,
      upstreams: [{ name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up' }],
      background: { pollInterval: 50 },
    });
    client = clientOf(gateway.key);
    strangersKey = (await gateway.gateway.keys.create({ userId: 'usr_2' })).key;
    adminKey = (await gateway.gateway.keys.create({ userId: 'usr_op', scopes: ['admin'] })).key;
  });
  afterEach(() => stored().deleteMany({}));
  after(async () => {
    await gateway.close();
    await database.drop();
    await provider.close();
  });

  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const stored = () => database.connection.collection<{ _id: string }>('gateway_stored');
  async function get(path: string, key = gateway.key): Promise<{ status: number; body: List & { error?: unknown } }> {
    const response = await fetch(`${gateway.url}/v1${path}`, { headers: { authorization: `Bearer ${key}` } });
    return { status: response.status, body: (await response.json()) as List };
  }
  const list = async (query = '', key = gateway.key) => (await get(`/stored_objects${query}`, key)).body;
  const newFile = async (text: string, name = 'a.txt', by = client) =>
    (await by.files.create({ file: await toFile(Buffer.from(text), name), purpose: 'user_data' })).id;
  const keyId = async () => (await gateway.call('GET', '/v1/api_keys')).body.data[0].id as string;

  it('is listed newest first, each with its name, its size and what made it', async () => {
    const file = await newFile('The Tagus', 'rivières.txt');
    const store = (await client.vectorStores.create({ name: 'rivers' })).id;
    const container = (await client.containers.create({ name: 'côté' })).id;
    const { data, has_more } = await list();
    expect(data.map(({ id, kind, name, bytes }) => ({ id, kind, name, bytes }))).to.deep.equal([
      { id: container, kind: 'container', name: 'côté', bytes: null },
      { id: store, kind: 'vector_store', name: 'rivers', bytes: null },
      { id: file, kind: 'file', name: 'rivières.txt', bytes: 9 },
    ]);
    expect(has_more).to.equal(false);
    const { created_at, expires_at, ...shown } = data[2] as List['data'][number];
    expect(shown).to.deep.equal({
      id: file,
      kind: 'file',
      name: 'rivières.txt',
      bytes: 9,
      model: null,
      made_by: { api_key_id: await keyId(), endpoint: '/files', object_id: null },
    });
    expect(Math.abs(Date.parse(created_at) - Date.now())).to.be.below(60_000);
    expect(expires_at).to.equal(null);
  });

  it('has the containers of one name, whatever is in it', async () => {
    const { id } = await client.containers.create({ name: 'côté' });
    await client.containers.create({ name: 'other' });
    expect((await client.containers.list({ name: 'côté' })).data.map((container) => container.id)).to.deep.equal([id]);
  });

  it('says of what the gateway forgets by itself when that is', async () => {
    const response = await client.responses.create({ model: 'm', input: 'Hi' });
    const [shown] = (await list()).data;
    expect(shown).to.include({ id: response.id, kind: 'response', model: 'm' });
    expect(shown?.made_by.endpoint).to.equal('/responses');
    const days = (Date.parse(shown?.expires_at ?? '') - Date.parse(shown?.created_at ?? '')) / 86_400_000;
    expect(days).to.equal(30);
  });

  it('names the upload that a file was made by', async () => {
    const fields = { bytes: 9, filename: 'b.txt', mime_type: 'text/plain', purpose: 'user_data' } as const;
    const upload = await client.uploads.create(fields);
    const data = await toFile(Buffer.from('The Tagus'), 'part');
    const part = await client.uploads.parts.create(upload.id, { data });
    const { file } = await client.uploads.complete(upload.id, { part_ids: [part.id] });
    const listed = (await list()).data;
    expect(listed.map(({ kind }) => kind)).to.deep.equal(['file', 'upload']);
    expect(listed[0]).to.include({ id: file?.id, name: 'b.txt', bytes: 9 });
    expect(listed[0]?.made_by.object_id).to.equal(upload.id);
  });

  for (const [which, askedByClient] of [
    ['its client asks', true],
    ['nobody but the gateway asks', false],
  ] as const) {
    it(`names the batch that has answered, and the key that has made it, where ${which}`, async () => {
      // the gateway goes on asking for a batch after this test: its account is no other test's
      const { id: batchKey, key } = await gateway.gateway.keys.create({ userId: `usr_batch_${askedByClient}` });
      const by = clientOf(key);
      const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'm', messages: [] } };
      const input = await newFile(JSON.stringify(line), 'in.jsonl', by);
      const request = { input_file_id: input, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
      const batch = await by.batches.create(request);
      const answers = `file-answers-${askedByClient}`;
      provider.batches.set(batch.id, { id: batch.id, status: 'completed', output_file_id: answers });
      if (askedByClient) await by.batches.retrieve(batch.id);
      const made = async () => (await list('?kind=file', key)).data.find(({ id }) => id === answers);
      await until(async () => (await made()) !== undefined);
      expect((await made())?.made_by).to.deep.equal({ api_key_id: batchKey, endpoint: null, object_id: batch.id });
    });
  }

  it('is added up by kind, on the first page alone', async () => {
    for (const text of ['a', 'bc', 'def']) await newFile(text);
    await client.vectorStores.create({ name: 'rivers' });
    const first = await list('?kind=vector_store&limit=1');
    expect(first.totals).to.deep.equal([
      { kind: 'file', count: 3, bytes: 6, has_more: false },
      { kind: 'vector_store', count: 1, bytes: 0, has_more: false },
    ]);
    expect(await list(`?after=${first.data[0]?.id}`)).to.not.have.property('totals');
  });

  it('comes page by page, every object once, also where several were made in one millisecond and one is deleted meanwhile', async () => {
    const made: string[] = [];
    for (let i = 0; i < 4; i += 1) {
      made.push(await newFile(`${i}`));
      made.push((await client.vectorStores.create({})).id);
    }
    await stored().updateMany({ _id: { $in: made.slice(0, 6) } }, { $set: { createdAt: new Date('2026-01-02') } });
    const listed: string[] = [];
    let after = '';
    for (;;) {
      const { data, has_more } = await list(`?limit=3${after}`);
      listed.push(...data.map(({ id }) => id));
      after = `&after=${listed.at(-1)}`;
      if (listed.length === 3) await client.files.delete(listed.find((id) => id.startsWith('file')) as string);
      if (!has_more) break;
    }
    expect(listed).to.have.members(made).and.to.have.length(made.length);
  });

  it('is narrowed to a kind and to a time', async () => {
    const [old, recent] = [await newFile('old'), await newFile('new')];
    await client.vectorStores.create({});
    await stored().updateOne({ _id: old }, { $set: { createdAt: new Date('2026-01-02T12:00:00Z') } });
    const ids = async (query: string) => (await list(query)).data.map(({ id }) => id);
    expect(await ids('?kind=file')).to.deep.equal([recent, old]);
    expect(await ids('?since=2026-01-02T12:00:00Z&until=2026-01-02T12:00:01Z')).to.deep.equal([old]);
    expect(await ids('?until=2026-01-02T12:00:00Z')).to.deep.equal([]);
    for (const query of ['?kind=item', '?limit=0', '?since=yesterday', '?after=%20', '?colour=red']) {
      expect({ query, status: (await get(`/stored_objects${query}`)).status }).to.deep.equal({ query, status: 400 });
    }
  });

  it('is the account’s own: no other account sees it, nor can it go on from its ids', async () => {
    const id = await newFile('mine');
    expect(await list('', strangersKey)).to.deep.equal({ data: [], has_more: false, totals: [] });
    const theirs = await newFile('theirs', 'a.txt', clientOf(strangersKey));
    expect((await list(`?after=${id}`, strangersKey)).data).to.deep.equal([]);
    expect((await list('')).data.map((object) => object.id)).to.not.include(theirs);
  });

  it('of a key that is limited to some models is what these have made, and what no model has', async () => {
    const file = await newFile('a');
    const mine = await client.responses.create({ model: 'm', input: 'Hi' });
    await client.responses.create({ model: 'n', input: 'Hi' });
    const { key } = await gateway.gateway.keys.create({ userId: 'usr_1', scopes: ['models'], models: ['m'] });
    const limited = await list('', key);
    expect(limited.data.map(({ id }) => id)).to.deep.equal([mine.id, file]);
    expect(limited.totals?.map(({ kind, count }) => [kind, count])).to.deep.equal([
      ['response', 1],
      ['file', 1],
    ]);
  });

  it('is shown to the operator with its upstream, and to no account', async () => {
    await newFile('a');
    const path = '/users/usr_1/stored_objects';
    const { body } = await get(path, adminKey);
    expect(body.data[0]).to.include({ kind: 'file', upstream: 'one' });
    expect((await list()).data[0]).to.not.have.property('upstream');
    expect((await get(path, strangersKey)).status).to.equal(403);
  });

  it('has what was stored before these were noted', async () => {
    const id = await newFile('a');
    await stored().updateOne({ _id: id }, { $unset: { origin: true, name: true, bytes: true } });
    const { data, totals } = await list();
    expect(data[0]).to.deep.include({ id, name: null, bytes: null });
    expect(data[0]?.made_by).to.deep.equal({ api_key_id: null, endpoint: null, object_id: null });
    expect(totals).to.deep.equal([{ kind: 'file', count: 1, bytes: 0, has_more: false }]);
  });

  it('keeps no more of a name than its first characters', async () => {
    await newFile('a', `${'é'.repeat(300)}.txt`);
    expect((await list()).data[0]?.name).to.equal('é'.repeat(256));
  });

  it('is gone when it is deleted', async () => {
    const id = await newFile('a');
    await client.files.delete(id);
    expect(await list()).to.deep.equal({ data: [], has_more: false, totals: [] });
  });

  it('is found by an index, however much other accounts and other kinds have', async () => {
    const others = Array.from({ length: 3_000 }, (_, i) => ({
      _id: `resp_${i}`,
      kind: 'response',
      userId: i % 2 ? 'usr_1' : 'usr_2',
      upstream: 'one',
      model: 'm',
      createdAt: new Date(1_700_000_000_000 + i),
    }));
    await stored().insertMany(others);
    const id = await newFile('a');
    await database.connection.db?.command({ profile: 2 });
    expect((await list('?limit=10')).data[0]?.id).to.equal(id);
    expect((await list('?limit=10&after=resp_2001')).data).to.have.length(10);
    await database.connection.db?.command({ profile: 0 });
    const profile = database.connection.collection('system.profile');
    const finds = await profile.find({ op: 'query', ns: /gateway_stored$/ }).toArray();
    expect(finds.length).to.be.at.least(2 * kinds.length);
    for (const { docsExamined, keysExamined, hasSortStage } of finds) {
      expect([docsExamined, keysExamined]).to.satisfy((read: number[]) => read.every((count) => count <= 30));
      expect(hasSortStage).to.equal(undefined);
    }
  });
});
