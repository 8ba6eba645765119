import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { UsageRecord } from '../../../src/index.ts';
import { FileProvider } from '../../stored/file-provider.ts';
import { failure } from '../../stored/support.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually, until } from '../../support/until.ts';

const megabyte = 1_000_000;
const uploadFields = { bytes: 2 * megabyte, filename: 'b', mime_type: 'text/plain', purpose: 'user_data' } as const;

describe('What upstreams keep', () => {
  let provider: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  const records: UsageRecord[] = [];

  before(async () => {
    provider = await FileProvider.start();
    database = await freshDatabase();
    gateway = await startGateway({
      mongo: database.connection,
      upstreams: [{ name: 'one', baseUrl: provider.baseUrl }],
      credits: {
        prices: { '*': {} },
        storedPrices: {
          file: { megabyte: 0.5, each: 0.25 },
          container: { each: 3, megabyte: 1 },
          vector_store: { each: 2 },
        },
      },
      onUsage: (record) => void records.push(record),
    });
    await gateway.gateway.start();
  });
  afterEach(() => {
    provider.onUpload = undefined;
    provider.onRequest = undefined;
  });
  after(async () => {
    await gateway.close();
    await database.drop();
    await provider.close();
  });

  let accounts = 0;
  /** An account with so many credits. */
  async function newAccount(credits: number) {
    accounts += 1;
    const userId = `usr_${accounts}`;
    const { key } = await gateway.gateway.keys.create({ userId });
    if (credits > 0) await gateway.gateway.credits?.topUp({ userId, credits, reference: 'welcome' });
    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const get = async (path: string) =>
      (await fetch(`${gateway.url}/v1${path}`, { headers: { authorization: `Bearer ${key}` } })).json();
    const usage = async () => ((await get('/usage')) as { data: Record<string, number>[] }).data[0];
    const spent = async () =>
      Number((credits - ((await gateway.gateway.credits?.balance(userId))?.creditsRemaining ?? Number.NaN)).toFixed(6));
    /** What the ledger has of its usage, once it has so many entries. */
    const charges = (count: number) =>
      eventually(
        () => database.connection.collection('gateway_credit_ledger').find({ userId, kind: 'usage' }).toArray(),
        (entries) => entries.length >= count,
      );
    return { userId, key, client, usage, spent, charges };
  }
  const fileOf = (bytes: number, name = 'a.txt') => toFile(Buffer.alloc(bytes, 'a'), name);
  const upload = async (client: OpenAI, bytes: number) =>
    client.files.create({ file: await fileOf(bytes), purpose: 'user_data' });

  /** Sends a form with a file of these bytes; `end` leaves it open. */
  function rawUpload(
    key: string,
    bytes: number,
    { length, path = '/files', field = 'file' }: { length?: number; path?: string; field?: string } = {},
  ) {
    const purpose =
      path === '/files' ? 'content-disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--b\r\n' : '';
    const head = `--b\r\n${purpose}content-disposition: form-data; name="${field}"; filename="a"\r\n\r\n`;
    const tail = '\r\n--b--\r\n';
    const req = request(`${gateway.url}/v1${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'multipart/form-data; boundary=b',
        ...(length !== undefined && { 'content-length': head.length + length + tail.length }),
      },
    });
    req.on('error', () => {});
    req.write(head);
    req.write(Buffer.alloc(bytes, 'a'));
    return { req, tail, whole: head.length + bytes + tail.length };
  }

  it('costs by the megabyte that is sent up and by what is made, once, and shows in the usage of the account', async () => {
    const { client, usage, spent, charges, userId } = await newAccount(100);
    const { id } = await upload(client, 2 * megabyte);
    await (await client.files.content(id)).arrayBuffer();
    await client.vectorStores.create({ name: 'rivers' });
    await client.containers.create({ name: 'notebook' });
    await charges(4);
    const sums = await usage();
    expect(sums).to.include({ requests: 0, input_tokens: 0, output_tokens: 0, downloaded_bytes: 2 * megabyte });
    // the form around the file is a part of the body
    const up = sums?.uploaded_bytes as number;
    expect(up).to.be.within(2 * megabyte, 2 * megabyte + 1_000);
    const cost = (up / megabyte) * 0.5 + 0.25 + 2 + 3;
    expect(await spent()).to.be.closeTo(cost, 1e-6);
    expect(sums?.credits).to.be.closeTo(cost, 1e-6);
    const own = records.filter((record) => record.userId === userId);
    expect(own.map(({ endpoint, model, stored }) => [endpoint, model, stored])).to.deep.equal([
      ['/files', null, { kind: 'file', made: 1, uploadedBytes: up, downloadedBytes: 0 }],
      ['/files/{file_id}/content', null, { kind: 'file', made: 0, uploadedBytes: 0, downloadedBytes: 2 * megabyte }],
      ['/vector_stores', null, { kind: 'vector_store', made: 1, uploadedBytes: 0, downloadedBytes: 0 }],
      ['/containers', null, { kind: 'container', made: 1, uploadedBytes: 0, downloadedBytes: 0 }],
    ]);
  });

  it('costs as much in parts: by the bytes of each, and for the file that they become', async () => {
    const { client, usage, spent, charges } = await newAccount(100);
    const { id } = await client.uploads.create(uploadFields);
    const part_ids: string[] = [];
    for (let i = 0; i < 2; i += 1) {
      part_ids.push((await client.uploads.parts.create(id, { data: await fileOf(megabyte, 'part') })).id);
    }
    await client.uploads.complete(id, { part_ids });
    await charges(3);
    const up = (await usage())?.uploaded_bytes as number;
    expect(up).to.be.within(2 * megabyte, 2 * megabyte + 2_000);
    expect(await spent()).to.be.closeTo((up / megabyte) * 0.5 + 0.25, 1e-6);
  });

  it('counts the files of containers and skills', async () => {
    const { client, usage, charges } = await newAccount(100);
    const { id } = await client.containers.create({ name: 'notebook' });
    await client.containers.files.create(id, { file: await fileOf(50_000) });
    await client.skills.create({ files: [await fileOf(30_000, 'SKILL.md')] });
    await charges(3);
    expect((await usage())?.uploaded_bytes).to.be.within(80_000, 82_000);
  });

  it('costs nothing where it is a container that a response has made by itself', async () => {
    const { client, spent, charges } = await newAccount(100);
    provider.output = [{ id: 'ci_1', type: 'code_interpreter_call', container_id: 'cntr_auto', status: 'completed' }];
    await client.responses.create({
      model: 'm',
      input: 'Draw the Tagus',
      tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
    });
    provider.output = [];
    const { data } = (await client.get('/stored_objects?kind=container')) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).to.deep.equal(['cntr_auto']);
    await client.vectorStores.create({});
    await charges(2);
    expect(await spent()).to.equal(2);
  });

  it('costs nothing where its provider refuses it, or its client leaves before all of it is up', async () => {
    const { client, key, usage, spent, charges, userId } = await newAccount(100);
    provider.onUpload = (req, res) => {
      req.resume().on('end', () => res.writeHead(400).end('{"error":{"message":"no"}}'));
    };
    expect((await failure(upload(client, megabyte))).status).to.equal(400);
    provider.onUpload = undefined;
    const seen = provider.seen.length;
    const { req } = rawUpload(key, 300_000, { length: megabyte });
    await until(() => provider.seen.length > seen);
    req.destroy();
    // one that is charged, after which those would have been
    await client.vectorStores.create({});
    expect(await charges(1)).to.have.length(1);
    expect(await spent()).to.equal(2);
    expect((await usage())?.uploaded_bytes).to.equal(0);
    expect(records.filter((record) => record.userId === userId)).to.have.length(1);
  });

  it('costs what its account owns, also if the client has left before the answer', async () => {
    const { key, client, spent, charges, usage } = await newAccount(100);
    let answer: () => void = () => {};
    const arrived = new Promise<void>((resolve) => {
      provider.onUpload = (req, res) => {
        req.resume().on('end', () => {
          answer = () => res.writeHead(200).end('{"id":"file-late","object":"file","bytes":1000,"filename":"a"}');
          resolve();
        });
      };
    });
    const { req, tail, whole } = rawUpload(key, 1_000, { length: 1_000 });
    req.end(tail);
    await arrived;
    req.destroy();
    answer();
    await charges(1);
    expect((await usage())?.uploaded_bytes).to.equal(whole);
    expect(await spent()).to.be.closeTo(0.25 + (whole / megabyte) * 0.5, 1e-6);
    expect(((await client.get('/stored_objects')) as { data: { id: string }[] }).data[0]?.id).to.equal('file-late');
  });

  it('costs what went up to a container, also if the client has left before the answer', async () => {
    const { key, client, spent, charges } = await newAccount(100);
    const { id } = await client.containers.create({ name: 'notebook' });
    let answer: () => void = () => {};
    const arrived = new Promise<void>((resolve) => {
      provider.onUpload = (req, res) => {
        req.resume().on('end', () => {
          answer = () => res.writeHead(200).end('{"id":"cfile_late","object":"container.file"}');
          resolve();
        });
      };
    });
    const { req, tail, whole } = rawUpload(key, megabyte, { length: megabyte, path: `/containers/${id}/files` });
    req.end(tail);
    await arrived;
    req.destroy();
    // until the gateway knows that the client has left
    await client.containers.retrieve(id);
    answer();
    await charges(2);
    expect(await spent()).to.be.closeTo(3 + whole / megabyte, 1e-6);
  });

  it('costs what went up to a container once where its provider’s answer fails and the client sends it again', async () => {
    const { key, client, spent, charges } = await newAccount(100);
    const { id } = await client.containers.create({ name: 'notebook' });
    let sent = 0;
    provider.onUpload = (req, res) => {
      sent += 1;
      const isFirst = sent === 1;
      req.resume().on('end', () => {
        res.writeHead(200, { 'content-type': 'application/json', ...(isFirst && { 'content-length': 100 }) });
        if (isFirst) res.write('{"id":', () => res.destroy());
        else res.end('{"id":"cfile_1","object":"container.file"}');
      });
    };
    const patient = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 2 });
    await patient.containers.files.create(id, { file: await fileOf(megabyte) });
    expect(sent).to.equal(2);
    await client.vectorStores.create({});
    expect(await charges(3)).to.have.length(3);
    expect(await spent()).to.be.within(3 + 1 + 2, 3 + 1 + 2 + 0.01);
  });

  it('costs what went up where the client does not say how much that is going to be', async () => {
    // as much as the largest file costs
    const { key, charges, usage } = await newAccount(300);
    const { req, tail, whole } = rawUpload(key, 700_000);
    req.end(tail);
    const [res] = await once(req, 'response');
    res.resume();
    expect(res.statusCode).to.equal(200);
    await charges(1);
    expect((await usage())?.uploaded_bytes).to.equal(whole);
  });

  it('is refused where the client does not say how much goes up, unless the largest file fits', async () => {
    const { key } = await newAccount(200);
    const seen = provider.seen.length;
    const { req, tail } = rawUpload(key, 1_000);
    req.end(tail);
    const [res] = await once(req, 'response');
    const { error } = JSON.parse(Buffer.concat(await res.toArray()).toString());
    expect([res.statusCode, error.param]).to.deep.equal([402, 'content-length']);
    expect(error.message).to.match(
      /may cost 268\.\d+ credits, and this account has 200 left; send content-length, or add some/,
    );
    expect(provider.seen).to.have.length(seen);
  });

  it('that is downloaded in part counts for that part', async () => {
    const { key, client, charges, usage, userId } = await newAccount(100);
    const { id } = await upload(client, 30 * megabyte);
    const options = { headers: { authorization: `Bearer ${key}` } };
    const req = request(`${gateway.url}/v1/files/${id}/content`, options).end();
    const [res] = await once(req, 'response');
    await once(res, 'data');
    req.destroy();
    await charges(2);
    expect((await usage())?.downloaded_bytes)
      .to.be.above(0)
      .and.below(30 * megabyte);
    expect(records.find((record) => record.userId === userId && record.stored?.downloadedBytes)?.ending).to.equal(
      'client_left',
    );
  });

  it('is refused an account with nothing left, before its provider is asked; what has no price is not', async () => {
    const { client, key } = await newAccount(0);
    const before = provider.seen.length;
    expect((await failure(upload(client, 1_000))).code).to.equal('insufficient_credits');
    expect((await failure(client.vectorStores.create({}))).code).to.equal('insufficient_credits');
    const upload_id = (await client.uploads.create(uploadFields)).id;
    // the announced length would be a price
    const { req, tail } = rawUpload(key, 1_000, { path: `/uploads/${upload_id}/parts`, field: 'data' });
    req.end(tail);
    const [res] = await once(req, 'response');
    res.resume();
    expect(res.statusCode).to.equal(402);
    expect(provider.seen.length).to.equal(before + 1);
    expect((await client.skills.create({ files: [await fileOf(10, 'SKILL.md')] })).id).to.be.a('string');
  });

  it('reserves what it may cost while it goes up, so that no second one is admitted that nothing is left for', async () => {
    const { key, client } = await newAccount(2);
    const seen = provider.seen.length;
    const { req } = rawUpload(key, 1_000, { length: 3 * megabyte });
    await until(() => provider.seen.length > seen);
    expect((await failure(upload(client, 1_000))).code).to.equal('insufficient_credits');
    req.destroy();
    await eventually(
      () => upload(client, 1_000).catch(({ code }) => code),
      (answered) => typeof answered === 'object',
    );
  });
});
