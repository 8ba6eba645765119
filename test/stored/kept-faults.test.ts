import { createServer, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import OpenAI, { toFile } from 'openai';
import { hardenServer, type ModelGatewayOptions } from '../../src/index.ts';
import { HeldClock, leastDatabaseWait, whileClockStands } from '../support/clock.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { listenOn, nobody } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { freshDatabase, freshUri } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

const json = { 'content-type': 'application/json' };
const boundary = 'content-type: multipart/form-data; boundary=x\r\n';
const form =
  '--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n' +
  '--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nTagus\r\n--x--\r\n';

type Upstream = NonNullable<ModelGatewayOptions['upstreams']>[number];

/** A gateway in front of a provider of files, or of two. */
async function startScene(options: Partial<ModelGatewayOptions> = {}, upstreams: readonly Partial<Upstream>[] = [{}]) {
  const providers = await Promise.all(upstreams.map(() => FileProvider.start()));
  const database = await freshDatabase();
  const logger = recordingLogger();
  const gateway = await startGateway({
    mongo: database.connection,
    logger,
    upstreams: upstreams.map((upstream, i) => ({
      name: `up${i}`,
      baseUrl: providers[i]?.baseUrl ?? '',
      ...upstream,
    })),
    ...options,
  });
  const { key } = await gateway.gateway.keys.create({ userId: 'usr_2' });
  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  return {
    provider: providers[0] as FileProvider,
    providers,
    gateway,
    logger,
    client: clientOf(gateway.key),
    stranger: clientOf(key),
    stored: database.connection.collection<{ _id: string }>('gateway_stored'),
    database,
    async close() {
      await gateway.close();
      await database.drop();
      for (const provider of providers) await provider.close();
    },
  };
}

const upload = async (by: OpenAI, text = 'x', purpose: OpenAI.FilePurpose = 'user_data') =>
  (await by.files.create({ file: await toFile(Buffer.from(text), 'a.txt'), purpose })).id;

/** A connection to the gateway, and what has come on it. */
function open({ url, key }: LiveGateway, head: string): Socket & { text: string } {
  const socket = Object.assign(connect(Number(new URL(url).port), '127.0.0.1'), { text: '' });
  socket.on('data', (chunk) => {
    socket.text += chunk.toString('latin1');
  });
  socket.on('error', () => {});
  socket.write(head.replace('\r\n', `\r\nhost: x\r\nauthorization: Bearer ${key}\r\n`));
  return socket;
}

describe('what upstreams keep, where something goes wrong', () => {
  let scene: Awaited<ReturnType<typeof startScene>>;
  let ownConnection: Connection | undefined;
  let clock: HeldClock | undefined;
  afterEach(async () => {
    clock?.release();
    clock = undefined;
    await scene.close();
    await ownConnection?.dropDatabase();
    await ownConnection?.close();
    ownConnection = undefined;
  });

  it('is not answered where its id is that of another object', async () => {
    scene = await startScene();
    const { client, stranger, provider } = scene;
    provider.onUpload = (req, res) => {
      req.resume().on('end', () => res.writeHead(200, json).end('{"id":"file-same","object":"file"}'));
    };
    expect(await upload(client)).to.equal('file-same');
    const refused = await failure(upload(stranger));
    expect([refused.status, refused.code]).to.deep.equal([502, 'upstream_invalid_response']);
    expect((await failure(stranger.files.retrieve('file-same'))).code).to.equal('file_not_found');
  });

  it('is downloaded as a file, which no browser shows as a page of the host, and HEAD does not fetch it', async () => {
    scene = await startScene();
    const { client, provider } = scene;
    const id = await upload(client, '<script>alert(1)</script>');
    const { headers } = await client.files.content(id);
    expect(headers.get('x-content-type-options')).to.equal('nosniff');
    expect(headers.get('content-security-policy')).to.equal('sandbox');
    expect(headers.get('content-disposition')).to.match(/^attachment/);
    const { method, path } = provider.seen.at(-1) ?? {};
    expect([method, path]).to.deep.equal(['GET', `/files/${id}/content`]);
    const head = await fetch(`${scene.gateway.url}/v1/files/${id}/content?stream=true`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${scene.gateway.key}` },
    });
    expect([head.status, head.headers.get('x-content-type-options')]).to.deep.equal([200, 'nosniff']);
  });

  it('is not reached by parts of an upload, by what is in a path, or by fields of a form', async () => {
    scene = await startScene();
    const { client, stranger, provider } = scene;
    const begin = (by: OpenAI) =>
      by.uploads.create({ bytes: 1, filename: 'b', mime_type: 'text/plain', purpose: 'user_data' });
    const mine = await begin(client);
    const data = await toFile(Buffer.from('secret'), 'p');
    const part = await client.uploads.parts.create(mine.id, { data });
    const theirs = await begin(stranger);
    const file = await upload(client);
    const { id: vector_store_id } = await stranger.vectorStores.create({});
    const before = provider.seen.length;
    const completed = await failure(stranger.uploads.complete(theirs.id, { part_ids: [part.id] }));
    expect([completed.code, completed.param]).to.deep.equal(['part_not_found', 'part_ids[0]']);
    const inStore = await failure(stranger.vectorStores.files.retrieve(file, { vector_store_id }));
    expect([inStore.code, inStore.param]).to.deep.equal(['file_not_found', 'file_id']);
    for (const name of ['images[0][file_id]', 'images[].file_id', 'file_id', 'file_ids[]']) {
      const body = new FormData();
      for (const [field, value] of Object.entries({ model: 'm', prompt: 'Hi', [name]: file }))
        body.append(field, value);
      body.append('image', new Blob(['x']), 'a.png');
      const headers = { authorization: `Bearer ${stranger.apiKey}` };
      const answer = await fetch(`${scene.gateway.url}/v1/images/edits`, { method: 'POST', headers, body });
      const { error } = (await answer.json()) as { error: { code: string; param: string } };
      expect([answer.status, error.code, error.param]).to.deep.equal([404, 'file_not_found', name]);
    }
    expect(provider.seen).to.have.length(before);
    expect((await client.uploads.complete(mine.id, { part_ids: [part.id] })).file?.id).to.match(/^file-/);
  });

  it('is not forgotten because its upstream does not know it for a while, and then is', async () => {
    scene = await startScene();
    const { client, stored, database } = scene;
    const ids = [await upload(client), await upload(client)];
    await stored.updateMany({}, [{ $set: { createdAt: { $subtract: ['$createdAt', 86_400_000] } } }]);
    const other = await FileProvider.start();
    const upstreams = [{ name: 'up0', baseUrl: other.baseUrl }];
    const wrong = await startGateway({ mongo: database.connection, upstreams });
    const { data } = (await wrong.call('GET', '/v1/files')).body;
    expect(data).to.deep.equal([]);
    expect((await client.files.list()).data.map(({ id }) => id)).to.deep.equal(ids.toReversed());
    expect(await stored.countDocuments({ missingSince: { $exists: true } })).to.equal(0);
    await wrong.call('GET', '/v1/files');
    await stored.updateMany({}, [{ $set: { missingSince: { $subtract: ['$missingSince', 7 * 86_400_000] } } }]);
    await wrong.call('GET', '/v1/files');
    expect((await failure(client.files.retrieve(ids[0] as string))).code).to.equal('file_not_found');
    await wrong.close();
    await other.close();
  });

  it('has an owner although its client has left before the answer', async () => {
    scene = await startScene();
    const { gateway, provider, client } = scene;
    let answer = () => {};
    provider.onUpload = (req, res) => {
      req.resume().on('end', () => {
        answer = () => void res.writeHead(200, json).end('{"id":"file-left","object":"file"}');
      });
    };
    const socket = open(gateway, `POST /v1/files HTTP/1.1\r\n${boundary}content-length: ${form.length}\r\n\r\n${form}`);
    const before = answer;
    await until(() => answer !== before);
    socket.destroy();
    await until(() => socket.closed);
    provider.keep(Buffer.from('Tagus'), 'a.txt', 'user_data', 'file-left');
    answer();
    await until(async () => (await client.files.retrieve('file-left').catch(() => undefined)) !== undefined);
  });

  it('is forgotten when it is deleted, and its upstream does not know it any more', async () => {
    scene = await startScene({ limits: { files: 1 } });
    const { client, provider } = scene;
    const id = await upload(client);
    provider.forget(id);
    expect((await failure(client.files.delete(id))).status).to.equal(404);
    expect((await failure(client.files.delete(id))).code).to.equal('file_not_found');
    expect(await upload(client)).to.match(/^file-/);
  });

  it('is no more than the limit, also where many are made at once or completed late', async () => {
    scene = await startScene({ limits: { files: 2, fileBytes: 1_000 } });
    const { client } = scene;
    const bytes = 1;
    const begin = () => client.uploads.create({ bytes, filename: 'b', mime_type: 'text/plain', purpose: 'user_data' });
    const uploads = [await begin(), await begin(), await begin()];
    const made = await Promise.allSettled(Array.from({ length: 10 }, () => upload(client)));
    expect(made.filter(({ status }) => status === 'fulfilled').length).to.be.within(1, 2);
    const data = await toFile(Buffer.from('x'), 'p');
    const codes = [];
    for (const { id } of uploads) {
      const part = await client.uploads.parts.create(id, { data });
      const completed = client.uploads.complete(id, { part_ids: [part.id] });
      codes.push(
        await completed.then(
          ({ object }) => object,
          ({ code }) => code,
        ),
      );
    }
    expect(codes.at(-1)).to.equal('file_limit_reached');
    const { id } = (await client.files.list()).data[0] ?? { id: '' };
    await client.files.delete(id);
    const large = { bytes: 8_000, filename: 'b', mime_type: 'text/plain', purpose: 'user_data' } as const;
    const refused = await failure(client.uploads.create(large));
    expect([refused.status, refused.param]).to.deep.equal([413, 'bytes']);
  });

  it('does not go up where the database is slow to count the files: to note its owner could take as long again', async () => {
    const appName = `slow-look-${process.pid}`;
    const connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    ownConnection = connection;
    scene = await startScene({ mongo: connection });
    const { client, provider } = scene;
    await upload(client);
    const answerAfter = (blockTimeMS: number) => {
      const namespace = `${connection.name}.gateway_stored`;
      const data = { appName, namespace, failCommands: ['aggregate'], blockConnection: true, blockTimeMS };
      const command = { configureFailPoint: 'failCommand', mode: { times: 1 }, data };
      return connection.getClient().db('admin').command(command);
    };
    const uploads = () => provider.seen.filter(({ method }) => method === 'POST').length;
    await answerAfter(1_600);
    const error = await failure(upload(client));
    expect(error).to.include({ status: 503, code: 'database_unavailable' });
    expect(uploads()).to.equal(1);
    await answerAfter(100);
    await upload(client);
    expect(uploads()).to.equal(2);
  });

  it('is listed to its end while it is deleted, and past what is gone or has another purpose', async () => {
    scene = await startScene();
    const { client, provider } = scene;
    clock = new HeldClock(leastDatabaseWait);
    const wanted = await upload(client, 'x', 'vision');
    const others: string[] = [];
    for (let i = 0; i < 210; i += 1) others.push(await upload(client));
    const found = (await client.files.list({ purpose: 'vision' })).data.map(({ id }) => id);
    expect(found).to.deep.equal([wanted]);
    for (const id of others.slice(0, 205)) provider.forget(id);
    const left: string[] = [];
    for await (const { id } of client.files.list({ order: 'asc', limit: 2 })) left.push(id);
    expect(left).to.deep.equal([wanted, ...others.slice(205)]);
    let deleted = 0;
    for await (const { id } of client.files.list({ limit: 2 })) {
      await client.files.delete(id);
      deleted += 1;
    }
    expect(deleted).to.equal(6);
  });

  it('is listed also where there is a place for one call of an account at its upstream', async () => {
    scene = await startScene({}, [{ maxConcurrency: 1 }]);
    const ids = [];
    for (let i = 0; i < 3; i += 1) ids.push(await upload(scene.client));
    expect((await scene.client.files.list()).data.map(({ id }) => id)).to.deep.equal(ids.toReversed());
  });

  it('is kept by the same of several upstreams for an account, so that it can be named together', async () => {
    scene = await startScene({}, [{}, {}]);
    const { client, providers } = scene;
    for (const [i, provider] of providers.entries()) provider.prefix = `${i}-`;
    const file_ids = [];
    for (let i = 0; i < 8; i += 1) file_ids.push(await upload(client));
    expect((await client.vectorStores.create({ file_ids })).id).to.match(/^.-vs_/);
  });

  it('goes to another upstream when the first refuses connections, also while a file goes up, and is not made twice', async () => {
    scene = await startScene({}, [{ baseUrl: nobody, priority: 0 }, { priority: 1 }]);
    const { client, providers } = scene;
    expect(await upload(client)).to.match(/^file-/);
    const kept = providers[1] as FileProvider;
    kept.onRequest = (req) => void req.socket.destroy();
    const before = kept.seen.length;
    const again = new OpenAI({ apiKey: scene.gateway.key, baseURL: `${scene.gateway.url}/v1`, maxRetries: 2 });
    expect((await failure(again.vectorStores.create({}))).code).to.equal('upstream_disconnected');
    expect(kept.seen.length - before).to.equal(1);
  });

  it('is not sent in a million pieces', async () => {
    scene = await startScene();
    const socket = open(scene.gateway, `POST /v1/files HTTP/1.1\r\n${boundary}transfer-encoding: chunked\r\n\r\n`);
    const pieces = '1\r\nx\r\n'.repeat(20_000);
    socket.write(pieces);
    await until(() => socket.text.includes('small pieces'));
    expect(socket.text).to.match(/^HTTP\/1.1 413 /);
    socket.destroy();
  });

  it('does not open the breaker of an account whose uploads are too large, or count as waiting for an answer', async () => {
    scene = await startScene({ limits: { fileBytes: 1_000 } });
    const { gateway, provider, client } = scene;
    provider.onUpload = (req) => void req.resume();
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
    for (let i = 0; i < 6; i += 1) {
      const socket = open(gateway, `POST /v1/files HTTP/1.1\r\n${boundary}transfer-encoding: chunked\r\n\r\n`);
      const seen = provider.seen.length;
      socket.write('1\r\nx\r\n');
      await until(() => provider.seen.length > seen);
      const waiting = await gateway.gateway.metrics().getSingleMetricAsString('gateway_upstream_calls_waiting');
      expect(waiting).to.match(/ 0$/);
      socket.write(chunk);
      socket.write(chunk);
      await until(() => socket.text.startsWith('HTTP/1.1 413'));
      socket.destroy();
    }
    const chat = await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
    expect(chat.id).to.match(/^chatcmpl-/);
  });

  it('is limited in requests also where it is ended, before the database is searched', () =>
    whileClockStands(async () => {
      scene = await startScene({ limits: { perUser: { requestsPerMinute: 3 } } });
      const { client, provider } = scene;
      const begin = { bytes: 1, filename: 'b', mime_type: 'text/plain', purpose: 'user_data' } as const;
      const { id } = await client.uploads.create(begin);
      const before = provider.seen.length;
      const cancels = await Promise.allSettled(Array.from({ length: 10 }, () => client.uploads.cancel(id)));
      expect(cancels.filter(({ status }) => status === 'fulfilled')).to.have.length(2);
      expect(provider.seen.length - before).to.equal(2);
      const named = client.vectorStores.create({ file_ids: ['file-nobodys'] });
      expect((await failure(named)).code).to.equal('rate_limit_exceeded');
    }));

  it('is not asked for where it is refused, of a client that expects to be asked', async () => {
    scene = await startScene();
    const { gateway, key } = scene.gateway;
    const server = hardenServer(createServer((req, res) => gateway.router(req, res)));
    const port = await listenOn(server);
    let asked = false;
    const sent = request({
      port,
      path: '/v1/uploads/upload_no/parts',
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'multipart/form-data; boundary=x',
        'content-length': form.length,
        expect: '100-continue',
      },
    });
    sent.on('continue', () => {
      asked = true;
    });
    sent.flushHeaders();
    const status = await new Promise((resolve) => sent.on('response', (res) => resolve(res.statusCode)));
    expect([status, asked]).to.deep.equal([404, false]);
    sent.destroy();
    server.closeAllConnections();
    server.close();
  });
});
