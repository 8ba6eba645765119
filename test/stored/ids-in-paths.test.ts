import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { operations } from '../support/spec.ts';
import { FileProvider } from './file-provider.ts';

/** Of one account, an id for each parameter of a path, by what stands before it: `containers/{container_id}/files/{file_id}`. */
type Ids = Readonly<Record<string, string>>;

/** What tells the calls of a test from those by which the gateway follows batches and jobs. */
const agent = 'ids-in-paths';

const form = (name: string) => {
  const data = new FormData();
  data.append(name, new Blob(['Douro']), 'SKILL.md');
  return data;
};

/** Bodies of operations that need one. */
const bodies: Readonly<Record<string, object>> = {
  addUploadPart: form('data'),
  completeUpload: { part_ids: [] },
  createContainerFile: form('file'),
  createSkillVersion: form('files'),
  createVectorStoreFile: { file_id: '' },
  createVectorStoreFileBatch: { file_ids: ['file-1'] },
  updateConversation: { metadata: {} },
  createConversationItems: { items: [] },
  updateChatCompletion: { metadata: {} },
  updateSkill: { default_version: '1' },
  updateVectorStore: { name: 'Rivers' },
  searchVectorStore: { query: 'longest' },
  updateVectorStoreFile: { attributes: {} },
  referRealtimeCall: { target_uri: 'tel:+351' },
  acceptRealtimeCall: { type: 'realtime', model: 'm' },
};

/** The keys of {@link Ids} in a path: each parameter with the path before it. */
const slotsOf = (path: string): string[] =>
  [...path.matchAll(/\{\w+\}/g)].map(({ 0: name, index }) => path.slice(0, index + name.length).replace('/v1/', ''));

/** Calls of models that have an id in their path, but those of the models that are served. */
const calls = operations.filter(
  ({ path, operation }) =>
    path.includes('{') &&
    (operation as unknown as Record<string, unknown>)['x-scope'] === 'models' &&
    !path.startsWith('/v1/models/') &&
    slotsOf(path).length > 0,
);

describe('the ids in the path of a call', () => {
  let provider: FileProvider;
  let gateway: LiveGateway;
  const accounts: { client: OpenAI; ids: Ids }[] = [];

  before(async () => {
    provider = await FileProvider.start();
    gateway = await startGateway({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up' }] });
    for (const userId of ['usr_1', 'usr_2']) {
      const { key } = await gateway.gateway.keys.create({ userId });
      const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
      accounts.push({ client, ids: await idsOf(client) });
    }
  });
  after(async () => {
    await gateway.close();
    await provider.close();
  });

  /** Has one of each kind made for an account. */
  async function idsOf(client: OpenAI): Promise<Ids> {
    const text = async (content: string, purpose: 'user_data' | 'batch' | 'fine-tune') =>
      (await client.files.create({ file: await toFile(Buffer.from(content), 'a.jsonl'), purpose })).id;
    const file = await text('Douro', 'user_data');
    const { id: response } = await client.responses.create({ model: 'm', input: 'Hi' });
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    const { id: chat } = await client.chat.completions.create({ model: 'm', messages, store: true });
    const { id: conversation } = await client.conversations.create({});
    const items = [{ type: 'message' as const, role: 'user' as const, content: 'Hi' }];
    const { data } = await client.conversations.items.create(conversation, { items });
    const upload = await client.uploads.create({ bytes: 5, filename: 'a', mime_type: 'text/plain', purpose: 'batch' });
    const request = { custom_id: '1', method: 'POST', url: '/v1/embeddings', body: { model: 'm', input: 'Hi' } };
    const { id: batch } = await client.batches.create({
      input_file_id: await text(`${JSON.stringify(request)}\n`, 'batch'),
      endpoint: '/v1/embeddings',
      completion_window: '24h',
    });
    const { id: job } = await client.fineTuning.jobs.create({
      model: 'm',
      training_file: await text('{}', 'fine-tune'),
    });
    const { id: container } = await client.containers.create({ name: 'Rivers' });
    const { id: inContainer } = await client.containers.files.create(container, { file_id: file });
    const files = [await toFile(Buffer.from('# Rivers'), 'SKILL.md')];
    const { id: skill } = await client.skills.create({ files });
    const { id: version } = await client.skills.versions.create(skill, { files });
    const { id: store } = await client.vectorStores.create({ file_ids: [file] });
    const { id: fileBatch } = await client.vectorStores.fileBatches.create(store, { file_ids: [file] });
    const call = `rtc_${response}`;
    provider.onRequest = (req, res) => {
      req.resume();
      res.writeHead(201, { 'content-type': 'application/sdp', location: `/v1/realtime/calls/${call}` }).end('v=0');
    };
    await client.post('/realtime/calls', { body: { sdp: 'v=0', session: { type: 'realtime', model: 'm' } } });
    provider.onRequest = undefined;
    const ofContainer = 'containers/{container_id}';
    const ofStore = 'vector_stores/{vector_store_id}';
    return {
      'responses/{response_id}': response,
      'chat/completions/{completion_id}': chat,
      'conversations/{conversation_id}': conversation,
      'conversations/{conversation_id}/items/{item_id}': data[0]?.id as string,
      'files/{file_id}': file,
      'uploads/{upload_id}': upload.id,
      'batches/{batch_id}': batch,
      'fine_tuning/jobs/{fine_tuning_job_id}': job,
      [ofContainer]: container,
      [`${ofContainer}/files/{file_id}`]: inContainer,
      'skills/{skill_id}': skill,
      'skills/{skill_id}/versions/{version}': version,
      'realtime/calls/{call_id}': call,
      [ofStore]: store,
      [`${ofStore}/files/{file_id}`]: file,
      [`${ofStore}/file_batches/{batch_id}`]: fileBatch,
    };
  }

  /** The path with these ids. */
  const filled = (path: string, ids: Ids) =>
    slotsOf(path).reduce((text, slot) => text.replace(/\{\w+\}/, ids[slot] as string), path);

  async function send(method: string, path: string, operationId: string) {
    const body = bodies[operationId];
    const isForm = body instanceof FormData;
    const response = await fetch(gateway.url + path, {
      method: method.toUpperCase(),
      headers: {
        authorization: `Bearer ${accounts[0]?.client.apiKey}`,
        'user-agent': agent,
        ...(body && !isForm && { 'content-type': 'application/json' }),
      },
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, code: response.ok ? undefined : JSON.parse(text).error.code };
  }

  /** The paths that the provider has been asked for since. */
  const seenSince = (from: number) =>
    provider.seen
      .slice(from)
      .filter(({ path, headers }) => !/^\/(?:batches|fine_tuning)/.test(path) || headers['user-agent'] === agent)
      .map(({ path }) => `/v1${path}`);

  /** Whether the provider has been sent something with this id in its path or query. */
  const hasSeen = (id: string, from: number) => seenSince(from).some((path) => path.split(/[/?=&]/).includes(id));

  const [mine, others] = [() => accounts[0]?.ids as Ids, () => accounts[1]?.ids as Ids];

  for (const { method, path, operation } of calls) {
    for (const slot of slotsOf(path)) {
      it(`of ${method.toUpperCase()} ${path} reach no upstream where ${slot} is of another account, or of nobody`, async () => {
        for (const id of [others()[slot] as string, 'unknown_9f2c']) {
          const from = provider.seen.length;
          const { status, code } = await send(method, filled(path, { ...mine(), [slot]: id }), operation.operationId);
          expect(status, id).to.equal(404);
          expect(code).to.match(/_not_found$/);
          expect(hasSeen(id, from), id).to.equal(false);
        }
      });
    }
  }

  for (const [path, slot] of [
    ['/v1/conversations/{conversation_id}/items', 'conversations/{conversation_id}/items/{item_id}'],
    ['/v1/responses/{response_id}/input_items', 'conversations/{conversation_id}/items/{item_id}'],
    ['/v1/containers/{container_id}/files', 'containers/{container_id}/files/{file_id}'],
    ['/v1/skills/{skill_id}/versions', 'skills/{skill_id}/versions/{version}'],
    ['/v1/vector_stores/{vector_store_id}/files', 'vector_stores/{vector_store_id}/files/{file_id}'],
    [
      '/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files',
      'vector_stores/{vector_store_id}/files/{file_id}',
    ],
  ] as const) {
    it(`and where a page of ${path} begins, are the account's`, async () => {
      const list = filled(path, mine());
      expect((await send('get', `${list}?after=${mine()[slot]}`, '')).status).to.equal(200);
      for (const id of [others()[slot] as string, 'unknown_9f2c']) {
        for (const name of ['after', 'before', 'After', '%61fter', 'after[]', 'limit=5&before']) {
          const from = provider.seen.length;
          const { status, code } = await send('get', `${list}?${name}=${id}`, '');
          expect([status, code], name).to.deep.equal([404, code?.match(/^\w+_not_found$/)?.[0]]);
          expect(hasSeen(id, from), name).to.equal(false);
        }
      }
    });
  }

  const withParts = calls.filter(({ path }) => slotsOf(path).length > 1);
  // what is deleted is deleted last
  for (const { method, path, operation } of withParts.sort((a, b) => b.method.localeCompare(a.method))) {
    it(`of ${method.toUpperCase()} ${path} go up where they are the account's`, async () => {
      const from = provider.seen.length;
      const own = filled(path, mine());
      expect((await send(method, own, operation.operationId)).status).to.equal(200);
      expect(seenSince(from)).to.deep.equal([own]);
    });
  }
});
