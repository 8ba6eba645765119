import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { hardenServer } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { listenOn } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

const mebibyte = 1024 * 1024;

describe('files, uploads and vector stores', () => {
  let provider: FileProvider;
  let gateway: LiveGateway;
  let client: OpenAI;
  let stranger: OpenAI;
  let closeDatabase: () => Promise<void>;

  before(async () => {
    provider = await FileProvider.start();
    const database = await freshDatabase();
    closeDatabase = () => database.drop();
    gateway = await startGateway({
      mongo: database.connection,
      upstreams: [{ name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up' }],
      limits: { fileBytes: 64 * mebibyte },
    });
    const { key } = await gateway.gateway.keys.create({ userId: 'usr_2' });
    const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    client = clientOf(gateway.key);
    stranger = clientOf(key);
  });
  afterEach(() => {
    provider.onUpload = undefined;
  });
  after(async () => {
    await gateway.close();
    await closeDatabase();
    await provider.close();
  });

  const newFile = async (text = 'Tagus', purpose: OpenAI.FilePurpose = 'user_data', by = client) =>
    (await by.files.create({ file: await toFile(Buffer.from(text), 'a.txt'), purpose })).id;
  const newStore = async (file_ids: string[] = [], by = client) => (await by.vectorStores.create({ file_ids })).id;

  describe('files', () => {
    it('are uploaded, listed, read, downloaded and deleted', async () => {
      const id = await newFile('The Tagus');
      expect(provider.seen.at(-1)).to.deep.include({ method: 'POST', path: '/files' });
      expect(provider.seen.at(-1)?.headers.authorization).to.equal('Bearer sk-up');
      expect(await client.files.retrieve(id)).to.include({ id, bytes: 9, filename: 'a.txt', purpose: 'user_data' });
      const content = await client.files.content(id);
      expect(await content.text()).to.equal('The Tagus');
      expect(content.headers.get('content-disposition')).to.equal('attachment; filename="a"');
      expect((await client.files.list()).data.map((file) => file.id)).to.include(id);
      expect((await client.files.delete(id)).deleted).to.equal(true);
      expect((await failure(client.files.retrieve(id))).code).to.equal('file_not_found');
    });

    it('of one account are listed for it alone, page by page, latest first, by purpose too', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 5; i += 1) {
        ids.push(await newFile(`${i}`, i % 2 ? 'vision' : 'batch', stranger));
        await newFile(`mine ${i}`);
      }
      const listed: string[] = [];
      for await (const { id } of await stranger.files.list({ limit: 2 })) listed.push(id);
      expect(listed).to.deep.equal(ids.toReversed());
      const filtered: string[] = [];
      for await (const { id } of await stranger.files.list({ limit: 1, purpose: 'vision', order: 'asc' }))
        filtered.push(id);
      expect(filtered).to.deep.equal([ids[1], ids[3]]);
      expect((await stranger.files.list({ limit: 10_000 })).data).to.have.length(5);
    });

    it('that an upload completes belong to its account', async () => {
      const upload = await client.uploads.create({
        bytes: 9,
        filename: 'b.txt',
        mime_type: 'text/plain',
        purpose: 'user_data',
      });
      const part_ids: string[] = [];
      for (const text of ['The ', 'Tagus']) {
        const data = await toFile(Buffer.from(text), 'part');
        part_ids.push((await client.uploads.parts.create(upload.id, { data })).id);
      }
      expect((await failure(stranger.uploads.complete(upload.id, { part_ids }))).code).to.equal('upload_not_found');
      const { file } = await client.uploads.complete(upload.id, { part_ids });
      expect(await (await client.files.content(file?.id ?? '')).text()).to.equal('The Tagus');
      expect((await failure(stranger.files.retrieve(file?.id ?? ''))).code).to.equal('file_not_found');
      const other = await client.uploads.create({
        bytes: 1,
        filename: 'c',
        mime_type: 'text/plain',
        purpose: 'user_data',
      });
      expect((await client.uploads.cancel(other.id)).status).to.equal('cancelled');
    });

    it('are as many as an account may have', async () => {
      const few = await startGateway({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl }], limits: { files: 1 } });
      const one = new OpenAI({ apiKey: few.key, baseURL: `${few.url}/v1`, maxRetries: 0 });
      await newFile('one', 'user_data', one);
      const refused = await failure(newFile('two', 'user_data', one));
      expect([refused.status, refused.code]).to.deep.equal([403, 'file_limit_reached']);
      await few.close();
    });
  });

  describe('vector stores', () => {
    it('are served with all their calls', async () => {
      const [first, second] = [await newFile(), await newFile()];
      const id = await newStore([first]);
      const { vectorStores } = client;
      expect((await vectorStores.retrieve(id)).id).to.equal(id);
      expect((await vectorStores.update(id, { name: 'Rivers' })).name).to.equal('Rivers');
      expect((await vectorStores.list()).data.map((store) => store.id)).to.include(id);
      expect((await vectorStores.search(id, { query: 'longest' })).data).to.deep.equal([]);
      expect((await vectorStores.files.create(id, { file_id: second })).id).to.equal(second);
      expect((await vectorStores.files.list(id)).data.map((file) => file.id)).to.deep.equal([first, second]);
      expect((await vectorStores.files.retrieve(second, { vector_store_id: id })).id).to.equal(second);
      const attributes = { country: 'Portugal' };
      expect((await vectorStores.files.update(second, { vector_store_id: id, attributes })).id).to.equal(second);
      const content = await vectorStores.files.content(second, { vector_store_id: id });
      expect(content.data[0]?.text).to.equal('Tagus');
      expect((await vectorStores.files.delete(second, { vector_store_id: id })).deleted).to.equal(true);
      const batch = await vectorStores.fileBatches.create(id, { file_ids: [second] });
      expect((await vectorStores.fileBatches.retrieve(batch.id, { vector_store_id: id })).id).to.equal(batch.id);
      const files = await vectorStores.fileBatches.listFiles(batch.id, { vector_store_id: id });
      expect(files.data).to.have.length(2);
      expect((await vectorStores.fileBatches.cancel(batch.id, { vector_store_id: id })).status).to.equal('cancelled');
      expect((await vectorStores.delete(id)).deleted).to.equal(true);
      expect((await failure(vectorStores.retrieve(id))).code).to.equal('vector_store_not_found');
    });
  });

  describe('of another account', () => {
    let file: string;
    let store: string;
    before(async () => {
      file = await newFile();
      store = await newStore();
    });

    it('are not found, as if there were none, and no upstream is asked', async () => {
      const before = provider.seen.length;
      const { files, vectorStores } = stranger;
      const vector_store_id = store;
      for (const call of [
        () => files.retrieve(file),
        () => files.content(file),
        () => files.delete(file),
        () => vectorStores.retrieve(store),
        () => vectorStores.update(store, { name: 'x' }),
        () => vectorStores.delete(store),
        () => vectorStores.search(store, { query: 'x' }),
        () => vectorStores.files.list(store),
        () => vectorStores.files.create(store, { file_id: file }),
        () => vectorStores.files.retrieve(file, { vector_store_id }),
        () => vectorStores.files.delete(file, { vector_store_id }),
        () => vectorStores.files.content(file, { vector_store_id }),
        () => vectorStores.fileBatches.create(store, { file_ids: [file] }),
        () => vectorStores.fileBatches.retrieve('vsfb_1', { vector_store_id }),
      ]) {
        const { status, code } = await failure(call());
        expect(status).to.equal(404);
        expect(code).to.match(/^(?:file|vector_store)_not_found$/);
      }
      expect(provider.seen).to.have.length(before);
      expect(await stranger.files.list().then(({ data }) => data.map(({ id }) => id))).to.not.include(file);
      expect(await stranger.vectorStores.list().then(({ data }) => data.map(({ id }) => id))).to.not.include(store);
    });

    for (const [what, param, body] of [
      [
        'a part of an input',
        'input[0].content[1].file_id',
        (id: string) => ({
          input: [
            {
              role: 'user',
              content: [
                { type: 'input_text', text: 'Hi' },
                { type: 'input_file', file_id: id },
              ],
            },
          ],
        }),
      ],
      [
        'a variable of a prompt',
        'prompt.variables.book.file_id',
        (id: string) => ({
          input: 'Hi',
          prompt: { id: 'p', variables: { book: { type: 'input_file', file_id: id } } },
        }),
      ],
      [
        'a container of a tool',
        'tools[0].container.file_ids[0]',
        (id: string) => ({
          input: 'Hi',
          tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [id] } }],
        }),
      ],
    ] as const) {
      it(`are not found where they stand in ${what}`, async () => {
        const create = (by: OpenAI, id: string) => by.responses.create({ model: 'm', ...body(id) } as never);
        const refused = await failure(create(stranger, file));
        expect([refused.status, refused.code, refused.param]).to.deep.equal([404, 'file_not_found', param]);
        const unknown = await failure(create(client, 'file-nobodys'));
        expect([unknown.code, unknown.param]).to.deep.equal(['file_not_found', param]);
        expect((await create(client, file)).id).to.match(/^resp_/);
      });
    }

    it('are not found where a tool searches them', async () => {
      const search = (by: OpenAI) =>
        by.responses.create({ model: 'm', input: 'Hi', tools: [{ type: 'file_search', vector_store_ids: [store] }] });
      expect((await failure(search(stranger))).param).to.equal('tools[0].vector_store_ids[0]');
      expect((await search(client)).id).to.match(/^resp_/);
    });

    it('are not found in a message of a chat', async () => {
      const chat = (by: OpenAI) =>
        by.chat.completions.create({
          model: 'm',
          messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: file } }] }],
        });
      expect((await failure(chat(stranger))).code).to.equal('file_not_found');
      expect((await chat(client)).id).to.match(/^chatcmpl-/);
    });

    it('are not put into a vector store', async () => {
      const refused = await failure(newStore([file], stranger));
      expect([refused.code, refused.param]).to.deep.equal(['file_not_found', 'file_ids[0]']);
      const own = await newStore([], stranger);
      const files = [{ file_id: file }];
      const added = await failure(stranger.vectorStores.fileBatches.create(own, { files }));
      expect([added.code, added.param]).to.deep.equal(['file_not_found', 'files[0].file_id']);
    });
  });

  describe('an upload', () => {
    /** Begins to upload a form of so many bytes, which `write` sends. */
    function begin(length: number | undefined, path = '/v1/files') {
      const headers = {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'multipart/form-data; boundary=x',
        ...(length !== undefined && { 'content-length': length }),
      };
      const sent = request(`${gateway.url}${path}`, { method: 'POST', headers });
      sent.on('error', () => {});
      return sent;
    }
    const answerTo = async (sent: ReturnType<typeof begin>) => {
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      return { status: response.statusCode, body: JSON.parse(Buffer.concat(chunks).toString()) };
    };

    it('goes up as it comes, with its length, and no faster than the provider reads', async () => {
      let arrived = 0;
      let go = () => {};
      const mayRead = new Promise<void>((resolve) => {
        go = resolve;
      });
      let length: string | undefined;
      provider.onUpload = async (req, res) => {
        length = req.headers['content-length'];
        await mayRead;
        for await (const chunk of req) arrived += chunk.length;
        res.end('{"id":"file-large","object":"file"}');
      };
      const total = 48 * mebibyte;
      const sent = begin(total);
      const piece = Buffer.alloc(mebibyte, 'x');
      let written = 0;
      const memoryBefore = process.memoryUsage().arrayBuffers;
      const writing = (async () => {
        for (; written < total; written += piece.length) if (!sent.write(piece)) await once(sent, 'drain');
        sent.end();
      })();
      await until(() => length !== undefined);
      let last = -1;
      // what the sockets hold is written; then nothing more
      while (last !== written) {
        last = written;
        // nothing says that no more will be written
        await sleep(200);
      }
      expect(written).to.be.below(total / 2);
      expect(process.memoryUsage().arrayBuffers - memoryBefore).to.be.below(16 * mebibyte);
      go();
      await writing;
      expect((await answerTo(sent)).body.id).to.equal('file-large');
      expect([arrived, length]).to.deep.equal([total, String(total)]);
    });

    it('may take longer than the server gives other requests', async () => {
      const server = hardenServer(createServer((req, res) => gateway.gateway.router(req, res)));
      // until the upload has begun, which takes a busy machine long
      Object.assign(server, { headersTimeout: 0, requestTimeout: 0, connectionsCheckingInterval: 20 });
      const port = await listenOn(server);
      const begun = new Promise<void>((resolve) => {
        provider.onUpload = (req, res) => {
          resolve();
          req.resume().on('end', () => res.end('{"id":"file-slow","object":"file"}'));
        };
      });
      const authorization = `Bearer ${gateway.key}`;
      const post = { port, method: 'POST' };
      const form = { authorization, 'content-type': 'multipart/form-data; boundary=x' };
      const sent = request({ ...post, path: '/v1/files', headers: form });
      sent.write('part');
      await begun;
      server.requestTimeout = 100;
      const headers = { authorization, 'content-type': 'application/json', 'content-length': 100 };
      const other = request({ ...post, path: '/v1/vector_stores', headers });
      other.on('error', () => {});
      other.write('{');
      // it has begun later, and has had its time
      expect((await answerTo(other)).status).to.equal(408);
      sent.write('part');
      sent.end();
      expect((await answerTo(sent)).body.id).to.equal('file-slow');
      server.closeAllConnections();
      server.close();
    });

    it('that was answered before its end has its connection closed, if the client sends no more', async () => {
      const server = createServer((req, res) => gateway.gateway.router(req, res));
      // it is kept as any other is
      server.keepAliveTimeout = 100;
      provider.onUpload = (_req, res) => {
        res.writeHead(400, { 'content-type': 'application/json' }).end('{}');
      };
      const socket = connect(await listenOn(server), '127.0.0.1');
      socket.write(
        `POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\n` +
          'content-type: multipart/form-data; boundary=x\r\ncontent-length: 100000\r\n\r\nbeginning',
      );
      const [answer] = (await once(socket, 'data')) as [Buffer];
      expect(answer.toString()).to.match(/^HTTP\/1.1 400 /);
      await once(socket.resume(), 'close');
      server.close();
    });

    it('that is refused before it goes up is dropped, and its connection takes the next request', async () => {
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
      const authorization = `host: x\r\nauthorization: Bearer ${gateway.key}\r\n`;
      socket.write(
        `POST /v1/uploads/upload_nobodys/parts HTTP/1.1\r\n${authorization}` +
          `content-type: multipart/form-data; boundary=x\r\ncontent-length: 500000\r\n\r\n${'x'.repeat(500_000)}`,
      );
      socket.write(`GET /v1/files HTTP/1.1\r\n${authorization}\r\n`);
      let answers = '';
      socket.on('data', (chunk) => {
        answers += chunk;
      });
      await until(() => answers.match(/HTTP\/1.1 \d+/g)?.length === 2);
      expect(answers.match(/HTTP\/1.1 \d+/g)).to.deep.equal(['HTTP/1.1 404', 'HTTP/1.1 200']);
      socket.destroy();
    });

    it('of unknown length goes up in chunks', async () => {
      let text = '';
      provider.onUpload = async (req, res) => {
        for await (const chunk of req) text += chunk;
        res.end(JSON.stringify({ id: 'file-chunked', object: 'file', encoding: req.headers['transfer-encoding'] }));
      };
      const sent = begin(undefined);
      sent.write('The ');
      // the first chunk leaves alone
      await sleep(20);
      sent.end('Tagus');
      expect((await answerTo(sent)).body).to.deep.include({ id: 'file-chunked', encoding: 'chunked' });
      expect(text).to.equal('The Tagus');
    });

    it('whose client leaves is dropped at the provider, and no file is noted', async () => {
      let aborted = false;
      let begun = false;
      provider.onUpload = (req) => {
        begun = true;
        req.resume().on('close', () => {
          aborted = !req.complete;
        });
      };
      const sent = begin(1_000);
      sent.write('half');
      await until(() => begun);
      sent.destroy();
      await until(() => aborted);
    });

    it('gets the answer of a provider that refuses it before its end', async () => {
      provider.onUpload = (_req, res) => {
        res.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"code":"bad_purpose"}}');
      };
      const sent = begin(10 * mebibyte);
      sent.write('beginning');
      expect(await answerTo(sent)).to.deep.equal({ status: 400, body: { error: { code: 'bad_purpose' } } });
      sent.destroy();
    });

    it('that the provider drops is answered as upstream_disconnected', async () => {
      provider.onUpload = (req) => {
        req.once('data', () => req.socket.destroy());
      };
      const sent = begin(1_000);
      sent.write('half');
      const { status, body } = await answerTo(sent);
      expect([status, body.error.code]).to.deep.equal([502, 'upstream_disconnected']);
      sent.destroy();
    });

    it('that is too large is refused, by its announced length or when it is', async () => {
      const before = provider.seen.length;
      const announced = begin(65 * mebibyte);
      announced.flushHeaders();
      expect((await answerTo(announced)).body.error.code).to.equal('request_too_large');
      announced.destroy();
      expect(provider.seen).to.have.length(before);
      provider.onUpload = (req) => void req.resume();
      const sent = begin(undefined);
      const answer = answerTo(sent);
      const piece = Buffer.alloc(mebibyte);
      for (let i = 0; i < 70 && !sent.destroyed; i += 1)
        if (!sent.write(piece)) await Promise.race([once(sent, 'drain'), answer]);
      const { status, body } = await answer;
      expect([status, body.error.code]).to.deep.equal([413, 'request_too_large']);
      sent.destroy();
    });

    for (const [what, headers, code] of [
      ['JSON', { 'content-type': 'application/json' }, 'unsupported_media_type'],
      [
        'compressed',
        { 'content-type': 'multipart/form-data; boundary=x', 'content-encoding': 'gzip' },
        'unsupported_media_type',
      ],
    ] as const) {
      it(`that is ${what} is refused`, async () => {
        const authorization = `Bearer ${gateway.key}`;
        const init = { method: 'POST', headers: { authorization, ...headers }, body: '{}' };
        const answer = await fetch(`${gateway.url}/v1/files`, init);
        expect([answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).to.deep.equal([
          415,
          code,
        ]);
      });
    }
  });
});
