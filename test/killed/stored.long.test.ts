import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { expect } from 'chai';
import { WebSocket } from 'ws';
import { scopes } from '../../src/index.ts';
import { openUsageRecords } from '../accounting/usage/records.ts';
import { answerResponse, respond, SocketUpstream } from '../sockets/socket-upstream.ts';
import { SocketClient } from '../sockets/support.ts';
import { FileProvider } from '../stored/file-provider.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { describeKills, type Row, type Stage } from './harness.ts';

const json = { 'content-type': 'application/json' };
const transcription = 'conversation.item.input_audio_transcription';
const form = { 'content-type': 'multipart/form-data; boundary=x' };
/** Credits. */
const funds = 100;
/** Of a token. Credits for a million. */
const price = { input: 1_000, output: 2_000 };
/** Of a second of sound. Credits. */
const second = 0.01;

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  readonly body: any;
}

/** A gateway in a process of its own, in front of providers of files and of WebSockets. */
async function openScene({ start, defer }: Stage) {
  const files = await FileProvider.start();
  defer(() => files.close());
  const sockets = await SocketUpstream.start();
  defer(() => sockets.close());
  const database = await freshDatabase();
  defer(database.drop);
  const options = {
    secretKeys: [newSecretKey()],
    credits: { prices: { '*': price, hear: { second } } },
    upstreams: [
      { name: 'files', baseUrl: files.baseUrl, models: ['m'] },
      { name: 'sockets', baseUrl: sockets.baseUrl, models: ['talk', 'hear'], priority: 1 },
    ],
    background: { pollInterval: 200 },
  };
  // makes the key, and the account's credits
  const operator = await createGateway({ ...options, mongo: database.connection });
  defer(() => operator.close());
  const { key } = await operator.keys.create({ userId: 'usr_1', scopes });
  await operator.credits?.topUp({ userId: 'usr_1', credits: funds, reference: 'first' });

  const startGateway = () => start({ uri: database.uri, options });
  let running = await startGateway();
  const { usage, sweep } = openUsageRecords(database.connection);
  return {
    files,
    sockets,
    key,
    usage,
    url: () => running.url,
    kill: () => running.kill(),
    async restart() {
      running = await startGateway();
    },
    /** An hour later, another process closes what the dead one has left open. @returns the records of all calls */
    async recordsLater() {
      await usage.updateMany({ ending: null }, { startedAt: new Date(Date.now() - 3_600_000) });
      await sweep();
      // files are counted too
      return usage.find({ stored: { $exists: false } }).lean();
    },
    /** Resolves to what is left when everything is charged. */
    async balance(): Promise<number> {
      await until(async () => (await usage.countDocuments({ counted: { $ne: true } })) === 0);
      return (await operator.credits?.balance('usr_1'))?.creditsRemaining ?? Number.NaN;
    },
    async call(method: string, target: string, body?: object): Promise<Answer> {
      const response = await fetch(running.url + target, {
        method,
        headers: { authorization: `Bearer ${key}`, ...json },
        ...(body && { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: await response.json().catch(() => undefined) };
    },
    async upload(text = 'Tagus', purpose = 'user_data'): Promise<Answer> {
      const body = new FormData();
      body.append('purpose', purpose);
      body.append('file', new Blob([text]), 'a.txt');
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${running.url}/v1/files`, { method: 'POST', headers, body });
      return { status: response.status, body: await response.json() };
    },
    async listed(target = '/v1/files'): Promise<string[]> {
      return (await this.call('GET', target)).body.data.map(({ id }: { readonly id: string }) => id);
    },
    /** Begins an upload that goes no further than its provider lets it. */
    beginUpload(isWhole: boolean) {
      const sent = request(`${running.url}/v1/files`, {
        method: 'POST',
        agent: false,
        headers: { authorization: `Bearer ${key}`, ...form, 'content-length': 1_000_000 },
      });
      sent.on('error', () => {});
      const body = Buffer.alloc(isWhole ? 1_000_000 : 500_000, 'x');
      if (isWhole) sent.end(body);
      else sent.write(body);
      return sent;
    },
  };
}

const rows: Row[] = [
  {
    subject: 'an upload',
    killed: 'in the middle of it',
    holds: 'nothing of it is left, and every file that was acknowledged is listed',
    async show(stage) {
      const scene = await openScene(stage);
      const ids: string[] = [];
      for (let i = 0; i < 5; i += 1) ids.push((await scene.upload()).body.id);
      let aborted = false;
      scene.files.onUpload = (req) => {
        req.resume().on('close', () => {
          aborted = !req.complete;
        });
        req.on('error', () => {});
      };
      const sent = scene.beginUpload(false);
      await until(() => scene.files.seen.length === 6);
      await scene.kill();
      await until(() => aborted, undefined, 'the upstream is told');
      sent.destroy();
      scene.files.onUpload = undefined;
      await scene.restart();
      expect(await scene.listed()).to.deep.equal(ids.toReversed());
      expect(await scene.recordsLater()).to.deep.equal([]);
      expect(await scene.balance()).to.equal(funds);
    },
  },

  {
    subject: 'an upload',
    killed: 'when its upstream has made a file, before the answer',
    holds: "the file is nobody's, and no account sees it",
    async show(stage) {
      const scene = await openScene(stage);
      const { body: acknowledged } = await scene.upload();
      let made = false;
      scene.files.onUpload = (req) => {
        req.resume().on('end', () => {
          scene.files.keep(Buffer.from('x'), 'a.txt', 'user_data', 'file-nobodys');
          made = true;
        });
      };
      scene.beginUpload(true);
      await until(() => made);
      await scene.kill();
      scene.files.onUpload = undefined;
      await scene.restart();
      expect(await scene.listed()).to.deep.equal([acknowledged.id]);
      expect((await scene.call('GET', '/v1/files/file-nobodys')).status).to.equal(404);
      expect(await scene.balance()).to.equal(funds);
    },
  },

  {
    subject: 'uploads',
    killed: 'right after the first byte of an answer',
    holds: 'all files that were acknowledged are listed',
    async show(stage) {
      const scene = await openScene(stage);
      const acknowledged: string[] = [];
      let isOver = false;
      const uploadAgain = async (): Promise<void> => {
        while (!isOver) {
          const answer = await scene.upload().catch(() => undefined);
          if (answer?.status === 200) acknowledged.push(answer.body.id);
        }
      };
      const uploading = Promise.all(Array.from({ length: 8 }, uploadAgain));
      await until(() => acknowledged.length >= 40);
      await scene.kill();
      isOver = true;
      await uploading;
      await scene.restart();
      const listed: string[] = [];
      for (let after = ''; ; ) {
        const { body } = await scene.call('GET', `/v1/files?limit=100${after}`);
        listed.push(...body.data.map(({ id }: { readonly id: string }) => id));
        if (!body.has_more) break;
        after = `&after=${body.last_id}`;
      }
      expect(listed).to.include.members(acknowledged);
    },
  },

  {
    subject: 'a download',
    killed: 'in the middle of it',
    holds: 'it is cut, so that nobody takes a part for the whole',
    async show(stage) {
      const scene = await openScene(stage);
      const { body: file } = await scene.upload();
      let upstreamAnswer: ServerResponse | undefined;
      scene.files.onRequest = (_req, res) => {
        upstreamAnswer = res.writeHead(200, { 'content-type': 'application/octet-stream' });
        upstreamAnswer.write(Buffer.alloc(100_000, 7));
      };
      const headers = { authorization: `Bearer ${scene.key}` };
      const response = await fetch(`${scene.url()}/v1/files/${file.id}/content`, { headers });
      const cut = response.arrayBuffer().then(
        () => 'whole',
        () => 'cut',
      );
      await scene.kill();
      expect(await cut).to.equal('cut');
      await until(() => upstreamAnswer?.destroyed, undefined, 'the upstream is told');
      scene.files.onRequest = undefined;
      await scene.restart();
      const again = await fetch(`${scene.url()}/v1/files/${file.id}/content`, { headers });
      expect(await again.text()).to.equal('Tagus');
      expect(await scene.balance()).to.equal(funds);
    },
  },

  ...(
    [
      ['a realtime session', '/realtime?model=talk', { type: 'response.create' }, 'response.done'],
      [
        'a WebSocket of responses',
        '/responses',
        { type: 'response.create', model: 'talk', input: 'How long is the Tagus, and where does it end?' },
        'response.completed',
      ],
    ] as const
  ).map(
    ([what, endpoint, create, ends]): Row => ({
      subject: `a response of ${what}`,
      killed: 'in the middle of it',
      holds: 'what had ended is charged, once, and the rest by its estimated input',
      async show(stage) {
        const scene = await openScene(stage);
        const { sockets } = scene;
        sockets.onEvent = ({ type, model }, socket) => {
          if (type === 'response.create') model === undefined ? respond(socket) : answerResponse(socket, model);
        };
        const client = await SocketClient.open(`${scene.url().replace('http', 'ws')}/v1${endpoint}`, scene.key);
        client.send(create);
        await client.event(ends);
        sockets.onEvent = (_event, socket) => {
          socket.send('{"type":"response.created","response":{"id":"resp_cut","status":"in_progress"}}');
          socket.send('{"type":"response.output_text.delta","response_id":"resp_cut","delta":"Tagus"}');
        };
        client.send(create);
        await client.event('response.output_text.delta', 2);
        // what a kill takes with it are the last moments alone
        await until(async () => (await scene.usage.countDocuments({ ending: null })) === 1);
        await until(async () => (await scene.usage.countDocuments({ ending: 'complete' })) === 1);
        await scene.kill();
        expect((await client.whenClosed()).code).to.equal(1006);
        await until(() => sockets.socket.readyState === WebSocket.CLOSED, undefined, 'the upstream is told');
        await scene.restart();
        const records = await scene.recordsLater();
        expect(records.map(({ ending }) => ending).toSorted()).to.deep.equal(['complete', 'orphaned']);
        const orphan = records.find(({ ending }) => ending === 'orphaned');
        expect(orphan).to.include({ estimated: true, outputTokens: 0 });
        expect(orphan?.inputTokens).to.be.above(0);
        const used = records.reduce(
          (sum, { inputTokens, outputTokens }) => sum + inputTokens * price.input + outputTokens * price.output,
          0,
        );
        expect(await scene.balance()).to.be.closeTo(funds - used / 1_000_000, 1e-9);
      },
    }),
  ),

  {
    subject: 'a transcription in a realtime session',
    killed: 'in the middle of it',
    holds: 'it is charged, once, by the length of its sound',
    async show(stage) {
      const scene = await openScene(stage);
      const { sockets } = scene;
      const input = { transcription: { model: 'hear' }, format: { type: 'audio/pcmu' } };
      const say = (socket: WebSocket, event: object) => socket.send(JSON.stringify(event));
      sockets.onOpen = (socket) => say(socket, { type: 'session.created', session: { audio: { input } } });
      sockets.onEvent = ({ type }, socket) => {
        if (type !== 'input_audio_buffer.commit') return;
        say(socket, { type: 'input_audio_buffer.committed', item_id: 'item_1' });
        say(socket, { type: `${transcription}.delta`, item_id: 'item_1', delta: 'Tag' });
      };
      const client = await SocketClient.open(`${scene.url().replace('http', 'ws')}/v1/realtime?model=talk`, scene.key);
      await client.event('session.created');
      client.send({ type: 'input_audio_buffer.append', audio: Buffer.alloc(30 * 8_000).toString('base64') });
      client.send({ type: 'input_audio_buffer.commit' });
      await client.event(`${transcription}.delta`);
      // what a kill takes with it are the last moments alone
      await until(async () => (await scene.usage.countDocuments({ ending: null })) === 1);
      await scene.kill();
      expect((await client.whenClosed()).code).to.equal(1006);
      await scene.restart();
      const records = await scene.recordsLater();
      expect(records.map(({ ending, model, seconds }) => [ending, model, seconds])).to.deep.equal([
        ['orphaned', 'hear', 30],
      ]);
      expect(await scene.balance()).to.be.closeTo(funds - 30 * second, 1e-9);
    },
  },

  {
    subject: 'a batch',
    killed: 'while it is being made',
    holds: 'it counts once or not at all, and costs no more than its estimate',
    async show(stage) {
      const scene = await openScene(stage);
      const line = JSON.stringify({
        custom_id: 'a',
        method: 'POST',
        url: '/v1/chat/completions',
        body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
      });
      const { body: file } = await scene.upload(line, 'batch');
      let asked = false;
      scene.files.onRequest = (req: IncomingMessage, res: ServerResponse) => {
        if (req.method === 'GET') res.writeHead(200, { 'content-type': 'application/octet-stream' }).end(line);
        else
          req.resume().on('end', () => {
            asked = true;
          });
      };
      const batch = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
      const making = scene.call('POST', '/v1/batches', batch).catch(() => undefined);
      await until(() => asked);
      await until(async () => (await scene.usage.countDocuments({ ending: null })) === 1);
      await scene.kill();
      expect(await making).to.equal(undefined);
      scene.files.onRequest = undefined;
      await scene.restart();
      expect(await scene.listed('/v1/batches')).to.deep.equal([]);
      const records = await scene.recordsLater();
      expect(records.map(({ ending, outputTokens }) => [ending, outputTokens])).to.deep.equal([['orphaned', 0]]);
      const inputTokens = records[0]?.inputTokens ?? Number.NaN;
      expect(await scene.balance()).to.be.closeTo(funds - (inputTokens * price.input) / 1_000_000, 1e-9);
    },
  },
];

describeKills(rows, 'at once');
