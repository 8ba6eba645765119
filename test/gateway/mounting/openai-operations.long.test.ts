import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { responseOf } from '../../stored/support.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { type Listening, listen } from '../../support/listen.ts';
import { hasDocumentedPath, isDocumented } from '../../support/spec.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { type ClientOperation, clientOperations } from './openai-operations.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const text = { choices: [{ index: 0, finish_reason: 'stop', logprobs: null, text: 'Hello' }] };
const chat = { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', ...text };
const response = responseOf('resp_1');
const conversation = { id: 'conv_1', object: 'conversation', created_at: 1, metadata: {} };
const item = { id: 'msg_1', type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] };
const list = { object: 'list', data: [item], has_more: false };
const image = { created: 1, data: [{ b64_json: 'AAAA' }] };
const model = { id: 'm', object: 'model', created: 1, owned_by: 'vendor' };
const aFile = { id: 'file-1', object: 'file', bytes: 15, created_at: 1, filename: 'a.png', purpose: 'vision' };
const upload = { id: 'upload_1', object: 'upload', status: 'pending', bytes: 15 };
// its input file is answered the same: one request
const batch = {
  id: 'batch_1',
  object: 'batch',
  status: 'completed',
  url: '/v1/chat/completions',
  body: { model: 'm' },
};
const job = {
  id: 'ftjob-1',
  object: 'fine_tuning.job',
  model: 'm',
  status: 'succeeded',
  fine_tuned_model: 'ft:m:acme::1',
  trained_tokens: 10,
};
const checkpoint = {
  id: 'ftckpt_1',
  object: 'fine_tuning.job.checkpoint',
  fine_tuned_model_checkpoint: 'ft:m:acme::2',
};
const container = { id: 'cntr_1', object: 'container', created_at: 1, name: 'a', status: 'running' };
const inContainer = { container_id: 'cntr_1' };
const containerFile = { id: 'cfile_1', object: 'container.file', ...inContainer };
const skill = { id: 'skill_1', object: 'skill', name: 'a', default_version: '1', latest_version: '1' };
const ofSkill = { skill_id: 'skill_1' };
const skillVersion = { id: 'skillver_1', object: 'skill.version', version: '1', ...ofSkill };
/** What a call gives that gives nothing, as an object. */
const nothing = async (answer: PromiseLike<unknown>) => ({ ...((await answer) as object | undefined) });
/** The bytes of an answer. */
const bytes = async (answer: PromiseLike<Response>) => Buffer.from(await (await answer).arrayBuffer());
const store = { id: 'vs_1', object: 'vector_store', created_at: 1, name: null, status: 'completed' };
const storeFile = { id: 'file-1', object: 'vector_store.file', vector_store_id: 'vs_1', status: 'completed' };
const fileBatch = { id: 'vsfb_1', object: 'vector_store.files_batch', vector_store_id: 'vs_1', status: 'completed' };
const files = { object: 'list', data: [storeFile], has_more: false };
const inStore = { vector_store_id: 'vs_1' };
const session = { type: 'realtime', model: 'gpt-realtime' } as const;
const secret = { value: 'ek_of_a_session', expires_at: 4_000_000_000 };
const speech = Buffer.from([0xff, 0xf3, 0x00, 0x80]);
const file = () => toFile(Buffer.from('bytes of a file'), 'a.png', { type: 'image/png' });

/** A call of the official client, and what the upstream answers: what the client is to return. */
type Served = [call: (client: OpenAI) => PromiseLike<unknown>, answer: object];

function servedResponses(name: 'responses' | 'beta.responses'): Record<string, Served> {
  // the beta resource has the methods of the other, with types of its own
  const of = (client: OpenAI) => (name === 'responses' ? client : client.beta).responses as OpenAI['responses'];
  const rows: Record<string, Served> = {
    create: [(client) => of(client).create({ model: 'm', input: 'Hi' }), response],
    retrieve: [(client) => of(client).retrieve('resp_1'), response],
    cancel: [(client) => of(client).cancel('resp_1'), { ...response, status: 'cancelled' }],
    compact: [(client) => of(client).compact({ model: 'm', input: 'Hi' }), { ...response, id: 'resp_2' }],
    'inputItems.list': [(client) => of(client).inputItems.list('resp_1'), list],
    'inputTokens.count': [
      (client) => of(client).inputTokens.count({ model: 'm', input: 'Hi' }),
      { object: 'response.input_tokens', input_tokens: 3 },
    ],
    delete: [
      (client) => of(client).delete('resp_1') as PromiseLike<unknown>,
      { id: 'resp_1', object: 'response', deleted: true },
    ],
  };
  return Object.fromEntries(Object.entries(rows).map(([method, row]) => [`${name}.${method}`, row]));
}

/** A call for each operation that is served, in an order in which each finds what it needs. */
const served: Readonly<Record<string, Served>> = {
  'chat.completions.create': [
    (client) => client.chat.completions.create({ model: 'm', messages, store: true }) as PromiseLike<unknown>,
    chat,
  ],
  'chat.completions.retrieve': [(client) => client.chat.completions.retrieve('chatcmpl-1'), chat],
  'chat.completions.update': [(client) => client.chat.completions.update('chatcmpl-1', { metadata: null }), chat],
  'chat.completions.list': [(client) => client.chat.completions.list(), chat],
  'chat.completions.messages.list': [(client) => client.chat.completions.messages.list('chatcmpl-1'), list],
  'chat.completions.delete': [
    (client) => client.chat.completions.delete('chatcmpl-1'),
    { id: 'chatcmpl-1', object: 'chat.completion.deleted', deleted: true },
  ],
  'completions.create': [(client) => client.completions.create({ model: 'm', prompt: 'Hi' }), text],
  'embeddings.create': [
    (client) => client.embeddings.create({ model: 'm', input: 'Hi', encoding_format: 'float' }),
    { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.25, -0.5] }] },
  ],
  'images.generate': [(client) => client.images.generate({ model: 'm', prompt: 'A harbour' }), image],
  'images.edit': [async (client) => client.images.edit({ model: 'm', prompt: 'At night', image: await file() }), image],
  'images.createVariation': [
    async (client) => client.images.createVariation({ model: 'm', image: await file() }),
    image,
  ],
  'audio.speech.create': [
    async (client) => {
      const answer = await client.audio.speech.create({ model: 'm', input: 'Hi', voice: 'alloy' });
      return Buffer.from(await answer.arrayBuffer());
    },
    speech,
  ],
  'audio.transcriptions.create': [
    async (client) => client.audio.transcriptions.create({ model: 'm', file: await file() }),
    { text: 'Hello' },
  ],
  'audio.translations.create': [
    async (client) => client.audio.translations.create({ model: 'm', file: await file() }),
    { text: 'Hello' },
  ],
  'moderations.create': [
    (client) => client.moderations.create({ model: 'm', input: 'Hi' }),
    { id: 'modr-1', model: 'm', results: [{ flagged: false }] },
  ],
  'models.list': [(client) => client.models.list(), { object: 'list', data: [model] }],
  'models.retrieve': [(client) => client.models.retrieve('m'), model],
  ...servedResponses('responses'),
  ...servedResponses('beta.responses'),
  'conversations.create': [(client) => client.conversations.create({}), conversation],
  'conversations.retrieve': [(client) => client.conversations.retrieve('conv_1'), conversation],
  'conversations.update': [(client) => client.conversations.update('conv_1', { metadata: {} }), conversation],
  'conversations.items.create': [
    (client) =>
      client.conversations.items.create('conv_1', { items: [{ type: 'message', role: 'user', content: 'Hi' }] }),
    list,
  ],
  'conversations.items.list': [(client) => client.conversations.items.list('conv_1'), list],
  'conversations.items.retrieve': [
    (client) => client.conversations.items.retrieve('msg_1', { conversation_id: 'conv_1' }),
    item,
  ],
  'conversations.items.delete': [
    (client) => client.conversations.items.delete('msg_1', { conversation_id: 'conv_1' }),
    conversation,
  ],
  'conversations.delete': [
    (client) => client.conversations.delete('conv_1'),
    { id: 'conv_1', object: 'conversation.deleted', deleted: true },
  ],
  'files.create': [async (client) => client.files.create({ file: await file(), purpose: 'vision' }), aFile],
  'files.retrieve': [(client) => client.files.retrieve('file-1'), aFile],
  'files.list': [(client) => client.files.list(), aFile],
  'files.content': [async (client) => Buffer.from(await (await client.files.content('file-1')).arrayBuffer()), speech],
  'uploads.create': [
    (client) => client.uploads.create({ bytes: 15, filename: 'a.png', mime_type: 'image/png', purpose: 'vision' }),
    upload,
  ],
  'uploads.parts.create': [
    async (client) => client.uploads.parts.create('upload_1', { data: await file() }),
    { id: 'part_1', object: 'upload.part', upload_id: 'upload_1' },
  ],
  'uploads.complete': [
    (client) => client.uploads.complete('upload_1', { part_ids: ['part_1'] }),
    { ...upload, status: 'completed', file: { ...aFile, id: 'file-2' } },
  ],
  'uploads.cancel': [(client) => client.uploads.cancel('upload_1'), { ...upload, status: 'cancelled' }],
  'vectorStores.create': [(client) => client.vectorStores.create({ file_ids: ['file-1'] }), store],
  'vectorStores.retrieve': [(client) => client.vectorStores.retrieve('vs_1'), store],
  'vectorStores.update': [(client) => client.vectorStores.update('vs_1', { name: 'Rivers' }), store],
  'vectorStores.list': [(client) => client.vectorStores.list(), store],
  'vectorStores.search': [
    (client) => client.vectorStores.search('vs_1', { query: 'Hi' }),
    { object: 'vector_store.search_results.page', data: [{ file_id: 'file-1', score: 1 }], has_more: false },
  ],
  'vectorStores.files.create': [(client) => client.vectorStores.files.create('vs_1', { file_id: 'file-1' }), storeFile],
  'vectorStores.files.retrieve': [(client) => client.vectorStores.files.retrieve('file-1', inStore), storeFile],
  'vectorStores.files.update': [
    (client) => client.vectorStores.files.update('file-1', { ...inStore, attributes: { a: 'b' } }),
    storeFile,
  ],
  'vectorStores.files.list': [(client) => client.vectorStores.files.list('vs_1'), files],
  'vectorStores.files.content': [
    (client) => client.vectorStores.files.content('file-1', inStore),
    { object: 'vector_store.file_content.page', data: [{ type: 'text', text: 'Hi' }], has_more: false },
  ],
  'vectorStores.files.delete': [
    (client) => client.vectorStores.files.delete('file-1', inStore),
    { id: 'file-1', object: 'vector_store.file.deleted', deleted: true },
  ],
  'vectorStores.fileBatches.create': [
    (client) => client.vectorStores.fileBatches.create('vs_1', { file_ids: ['file-1'] }),
    fileBatch,
  ],
  'vectorStores.fileBatches.retrieve': [
    (client) => client.vectorStores.fileBatches.retrieve('vsfb_1', inStore),
    fileBatch,
  ],
  'vectorStores.fileBatches.listFiles': [
    (client) => client.vectorStores.fileBatches.listFiles('vsfb_1', inStore),
    files,
  ],
  'vectorStores.fileBatches.cancel': [
    (client) => client.vectorStores.fileBatches.cancel('vsfb_1', inStore),
    { ...fileBatch, status: 'cancelled' },
  ],
  'vectorStores.delete': [
    (client) => client.vectorStores.delete('vs_1'),
    { id: 'vs_1', object: 'vector_store.deleted', deleted: true },
  ],
  'containers.create': [(client) => client.containers.create({ name: 'a', file_ids: ['file-1'] }), container],
  'containers.retrieve': [(client) => client.containers.retrieve('cntr_1'), container],
  'containers.list': [(client) => client.containers.list(), container],
  'containers.files.create': [
    async (client) => client.containers.files.create('cntr_1', { file: await file() }),
    containerFile,
  ],
  'containers.files.retrieve': [(client) => client.containers.files.retrieve('cfile_1', inContainer), containerFile],
  'containers.files.list': [
    (client) => client.containers.files.list('cntr_1'),
    { object: 'list', data: [containerFile], has_more: false },
  ],
  'containers.files.content.retrieve': [
    (client) => bytes(client.containers.files.content.retrieve('cfile_1', inContainer)),
    speech,
  ],
  'containers.files.delete': [(client) => nothing(client.containers.files.delete('cfile_1', inContainer)), {}],
  'containers.delete': [(client) => nothing(client.containers.delete('cntr_1')), {}],
  'skills.create': [async (client) => client.skills.create({ files: [await file()] }), skill],
  'skills.retrieve': [(client) => client.skills.retrieve('skill_1'), skill],
  'skills.update': [(client) => client.skills.update('skill_1', { default_version: '1' }), skill],
  'skills.list': [(client) => client.skills.list(), skill],
  'skills.content.retrieve': [(client) => bytes(client.skills.content.retrieve('skill_1')), speech],
  'skills.versions.create': [
    async (client) => client.skills.versions.create('skill_1', { files: [await file()] }),
    skillVersion,
  ],
  'skills.versions.retrieve': [(client) => client.skills.versions.retrieve('1', ofSkill), skillVersion],
  'skills.versions.list': [
    (client) => client.skills.versions.list('skill_1'),
    { object: 'list', data: [skillVersion], has_more: false },
  ],
  'skills.versions.content.retrieve': [
    (client) => bytes(client.skills.versions.content.retrieve('1', ofSkill)),
    speech,
  ],
  'skills.versions.delete': [
    (client) => client.skills.versions.delete('1', ofSkill),
    { id: 'skillver_1', object: 'skill.version.deleted', deleted: true },
  ],
  'skills.delete': [
    (client) => client.skills.delete('skill_1'),
    { id: 'skill_1', object: 'skill.deleted', deleted: true },
  ],
  'realtime.clientSecrets.create': [(client) => client.realtime.clientSecrets.create({ session }), secret],
  'realtime.calls.accept': [
    async (client) => {
      // the client for Node cannot begin one
      await client.post('/realtime/calls', { body: { sdp: 'v=0', session } });
      return nothing(client.realtime.calls.accept('rtc_1', session));
    },
    {},
  ],
  'realtime.calls.refer': [
    (client) => nothing(client.realtime.calls.refer('rtc_1', { target_uri: 'tel:+14155550123' })),
    {},
  ],
  'realtime.calls.reject': [(client) => nothing(client.realtime.calls.reject('rtc_1')), {}],
  'realtime.calls.hangup': [(client) => nothing(client.realtime.calls.hangup('rtc_1')), {}],
  'beta.realtime.sessions.create': [(client) => client.beta.realtime.sessions.create({}), { client_secret: secret }],
  'beta.realtime.transcriptionSessions.create': [
    (client) => client.beta.realtime.transcriptionSessions.create({}),
    { client_secret: secret },
  ],
  'batches.create': [
    (client) =>
      client.batches.create({
        input_file_id: 'file-1',
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      }),
    batch,
  ],
  'batches.retrieve': [(client) => client.batches.retrieve('batch_1'), batch],
  'batches.list': [(client) => client.batches.list(), batch],
  'batches.cancel': [(client) => client.batches.cancel('batch_1'), { ...batch, status: 'cancelled' }],
  'fineTuning.jobs.create': [(client) => client.fineTuning.jobs.create({ model: 'm', training_file: 'file-1' }), job],
  'fineTuning.jobs.retrieve': [(client) => client.fineTuning.jobs.retrieve('ftjob-1'), job],
  'fineTuning.jobs.list': [(client) => client.fineTuning.jobs.list(), job],
  'fineTuning.jobs.cancel': [(client) => client.fineTuning.jobs.cancel('ftjob-1'), { ...job, status: 'cancelled' }],
  'fineTuning.jobs.pause': [(client) => client.fineTuning.jobs.pause('ftjob-1'), { ...job, status: 'paused' }],
  'fineTuning.jobs.resume': [(client) => client.fineTuning.jobs.resume('ftjob-1'), { ...job, status: 'running' }],
  'fineTuning.jobs.listEvents': [
    (client) => client.fineTuning.jobs.listEvents('ftjob-1'),
    { object: 'list', data: [{ id: 'ftevent-1', object: 'fine_tuning.job.event' }], has_more: false },
  ],
  'fineTuning.jobs.checkpoints.list': [
    (client) => client.fineTuning.jobs.checkpoints.list('ftjob-1'),
    { object: 'list', data: [checkpoint], has_more: false },
  ],
  'models.delete': [
    (client) => client.models.delete('ft:m:acme::1'),
    { id: 'ft:m:acme::1', object: 'model', deleted: true },
  ],
  'files.delete': [(client) => client.files.delete('file-1'), { id: 'file-1', object: 'file', deleted: true }],
};

/** Lists that the gateway makes of the account's own: each object is what the upstream answers for it. */
const ownLists: ReadonlySet<string> = new Set([
  'chat.completions.list',
  'files.list',
  'batches.list',
  'fineTuning.jobs.list',
  'containers.list',
  'skills.list',
  'vectorStores.list',
]);

describe("the operations of OpenAI's client", () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let alone: Listening;
  let client: OpenAI;
  let operations: readonly ClientOperation[];

  before(async () => {
    operations = await clientOperations();
    upstream = await ScriptedUpstream.start();
    live = await startGateway({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
    alone = await listen(live.gateway.router);
    client = new OpenAI({ baseURL: `${alone.url}/v1`, apiKey: live.key, adminAPIKey: live.key, maxRetries: 0 });
  });
  after(async () => {
    await alone?.close();
    await live?.close();
    await upstream?.close();
  });

  it('are more than 250, and each that openapi.yaml has is called below', () => {
    expect(operations.length).to.be.above(250);
    const inOpenApi = operations.filter(({ request }) => isDocumented(request)).map(({ name }) => name);
    expect(Object.keys(served)).to.have.members(inOpenApi);
  });

  for (const [name, [call, answer]] of Object.entries(served)) {
    it(`are served: ${name}`, async () => {
      upstream.script = Buffer.isBuffer(answer)
        ? json(200, answer, { 'content-type': 'audio/mpeg' })
        : json(200, answer, { location: '/v1/realtime/calls/rtc_1' });
      const returned = await call(client);
      if (Buffer.isBuffer(answer)) expect(returned).to.deep.equal(answer);
      else if (ownLists.has(name)) expect(returned).to.have.property('data').that.deep.equals([answer]);
      else if ('data' in answer) expect(returned).to.have.property('data').that.deep.equals(answer.data);
      else expect(returned).to.deep.include(answer);
    });
  }

  it('are refused with 405, or with 404 and their name, where openapi.yaml does not have them', async () => {
    for (const { name, request, call } of operations.filter((operation) => !(operation.name in served))) {
      const thrown = await Promise.resolve(call(client)).catch((error: unknown) => error);
      expect(thrown, name).to.be.instanceOf(OpenAI.APIError);
      const { status, code, message } = thrown as InstanceType<typeof OpenAI.APIError>;
      if (hasDocumentedPath(request)) expect([status, code], name).to.deep.equal([405, 'method_not_allowed']);
      else {
        expect([status, code], name).to.deep.equal([404, 'endpoint_not_served']);
        expect(message, name).to.include(`This gateway does not serve ${request}; the model endpoints are /v1/`);
      }
    }
  });

  it('are refused with a list of the model endpoints that are served', async () => {
    const { message } = await client.videos.list().then(
      () => expect.fail('the call should have failed'),
      (error: Error) => error,
    );
    for (const path of ['/v1/chat/completions', '/v1/audio/speech', '/v1/models', '/v1/vector_stores']) {
      expect(message.split(/[ ,]+/)).to.include(path);
    }
    expect(message).not.to.include('/v1/webhooks');
  });

  it('are left to the host where the gateway is mounted and does not serve them', async () => {
    const answer = await fetch(`${live.url}/v1/videos`);
    expect(answer.status).to.equal(404);
    expect(await answer.text()).to.match(/Cannot GET \/v1\/videos/);
  });
});
