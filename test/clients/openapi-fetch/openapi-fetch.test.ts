import { expect } from 'chai';
import createClient, { type Middleware } from 'openapi-fetch';
import type { operations as Operations, paths } from '../../../src/api.d.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { type SpecMediaType, type SpecPathItem, spec } from '../../support/openapi.ts';
import { misfits, operations, resolved } from '../../support/spec.ts';
import { json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

type Content = Readonly<Record<string, SpecMediaType>>;

/** What openapi.yaml says an operation answers with a status. */
function documentedContent(path: string, method: string, status: number): Content {
  const operation = spec.paths[path]?.[method.toLowerCase() as keyof SpecPathItem & 'get'];
  const response = operation?.responses[status] ?? operation?.responses.default;
  return (resolved(response) as { content?: Content } | undefined)?.content ?? {};
}

/** The path of openapi.yaml that a request is for. */
function templateOf(path: string): string {
  if (spec.paths[path]) return path;
  const matches = (template: string) => new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
  return Object.keys(spec.paths).find(matches) ?? path;
}

/** The provider answers with the examples of openapi.yaml. */
const provider: Script = (res, { method, path, body }) => {
  const template = templateOf(path.split('?')[0] as string);
  if (template.startsWith('/v1/realtime/') && template.endsWith('/calls')) {
    const [type = '', { examples = {} } = {}] = Object.entries(documentedContent(template, method, 201))[0] ?? [];
    const [example] = Object.values(examples);
    const headers = { 'content-type': type, location: '/v1/realtime/calls/rtc_9f2c' };
    return void res.writeHead(201, headers).end(example?.value);
  }
  const content = documentedContent(template, method, 200);
  if (Object.keys(content).length === 0) return void res.writeHead(200).end();
  const streamed = body.toString().startsWith('{') && JSON.parse(body.toString()).stream === true;
  const [whole = ''] = Object.keys(content);
  const mediaType = streamed ? 'text/event-stream' : whole;
  const [example] = Object.values(content[mediaType]?.examples ?? {});
  if (mediaType !== 'application/json') res.writeHead(200, { 'content-type': mediaType }).end(example?.value);
  else return json(200, example?.value)(res, {} as never);
};

/** The fields that take files. */
const files = new Set(['files', 'file', 'image', 'data']);

function toForm(fields: object): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    form.append(name, files.has(name) ? new Blob([String(value)]) : String(value));
  }
  return form;
}

describe('a client generated from openapi.yaml', () => {
  let live: LiveGateway;
  let upstream: ScriptedUpstream;
  const called = new Set<string>();

  /** Notes which operation each call was, and holds every answer against what openapi.yaml says of it. */
  const recorder: Middleware = {
    async onResponse({ request, response, schemaPath }) {
      called.add(`${request.method} ${schemaPath}`);
      const mediaType = response.headers.get('content-type')?.split(';')[0] ?? '';
      const content = documentedContent(schemaPath, request.method, response.status);
      const answer = await response.clone().text();
      const body: unknown = mediaType === 'application/json' ? JSON.parse(answer) : answer;
      if (Object.keys(content).length === 0) expect(answer).to.equal('');
      else expect(content, `${request.method} ${schemaPath} ${response.status}`).to.include.keys(mediaType);
      expect(misfits(content[mediaType]?.schema ?? {}, body)).to.equal('');
      expect(response.headers.get('x-request-id')).to.match(/^req_/);
    },
  };

  function clientWith(key?: string) {
    const client = createClient<paths, 'application/json'>({
      baseUrl: live.url,
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    });
    client.use(recorder);
    return client;
  }

  const client = () => clientWith(live.key);

  /** The delivery of a test event to a webhook that nobody may reach from here. */
  async function sentTest(): Promise<{ id: string; webhookId: string }> {
    const path = { id: await newWebhook() };
    const body = { type: 'payment.completed' };
    const { data, response } = await client().POST('/v1/webhooks/{id}/test', { params: { path }, body });
    expect(response.status).to.equal(200);
    return { id: data?.id ?? '', webhookId: path.id };
  }

  const webhook = {
    url: 'http://127.0.0.1:9/webhooks/account',
    events: ['payment.completed'],
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  };

  async function newWebhook(): Promise<string> {
    const { data, error } = await client().POST('/v1/webhooks', { body: webhook });
    expect(error).to.equal(undefined);
    return data?.id ?? '';
  }

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = provider;
    live = await startGateway({
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl, apiKey: 'sk-up', speaks: ['openai', 'anthropic'] }],
      credits: { prices: { '*': {} }, lowThreshold: 5 },
    });
  });

  after(async () => {
    await live?.close();
    await upstream?.close();
  });

  /** A response that the provider keeps. */
  async function newResponse(): Promise<{ response_id: string }> {
    const { data } = await client().POST('/v1/responses', { body: { model: 'gpt-5-mini', input: 'Hi' } });
    return { response_id: data?.id ?? '' };
  }

  /** A batch of messages that the provider has ended by the time that it is asked for. */
  async function newMessageBatch(): Promise<{ message_batch_id: string }> {
    const messages = [{ role: 'user', content: 'Hi' }];
    const requests = [{ custom_id: 'rivers', params: { model: 'claude-sonnet-4-5', max_tokens: 9, messages } }];
    const { data } = await client().POST('/v1/messages/batches', { body: { requests } });
    return { message_batch_id: data?.id ?? '' };
  }

  async function newConversation(): Promise<{ conversation_id: string }> {
    const { data } = await client().POST('/v1/conversations', { body: {} });
    return { conversation_id: data?.id ?? '' };
  }

  async function newFile(): Promise<{ file_id: string }> {
    const body = { file: 'Tagus', purpose: 'user_data' };
    const { data } = await client().POST('/v1/files', { body, bodySerializer: toForm });
    return { file_id: data?.id ?? '' };
  }

  async function newUpload(): Promise<{ upload_id: string }> {
    const body = { bytes: 5, filename: 'rivers.txt', mime_type: 'text/plain', purpose: 'user_data' };
    const { data } = await client().POST('/v1/uploads', { body });
    return { upload_id: data?.id ?? '' };
  }

  async function newBatch(): Promise<{ batch_id: string }> {
    const { file_id: input_file_id } = await newFile();
    const body = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
    const { data } = await client().POST('/v1/batches', { body });
    return { batch_id: data?.id ?? '' };
  }

  async function newJob(): Promise<{ fine_tuning_job_id: string }> {
    const { file_id: training_file } = await newFile();
    const { data } = await client().POST('/v1/fine_tuning/jobs', { body: { model: 'gpt-4o-mini', training_file } });
    return { fine_tuning_job_id: data?.id ?? '' };
  }

  async function newContainer(): Promise<{ container_id: string }> {
    const { data } = await client().POST('/v1/containers', { body: { name: 'Rivers' } });
    return { container_id: data?.id ?? '' };
  }

  const newContainerFile = async () => ({ ...(await newContainer()), file_id: 'cfile_9f2c' });

  async function newSkill(): Promise<{ skill_id: string }> {
    const { data } = await client().POST('/v1/skills', { body: { files: ['Tagus'] }, bodySerializer: toForm });
    return { skill_id: data?.id ?? '' };
  }

  async function newRealtimeCall(): Promise<{ call_id: string }> {
    const call = { body: { sdp: 'v=0', session: { model: 'gpt-realtime' } }, parseAs: 'text' } as const;
    const { response } = await client().POST('/v1/realtime/calls', call);
    return { call_id: response.headers.get('location')?.split('/').pop() ?? '' };
  }
  const newSkillVersion = async () => ({ ...(await newSkill()), version: '1' });

  async function newVectorStore(): Promise<{ vector_store_id: string }> {
    const { data } = await client().POST('/v1/vector_stores', { body: { name: 'Rivers' } });
    return { vector_store_id: data?.id ?? '' };
  }

  const newFileBatch = async () => ({ ...(await newVectorStore()), batch_id: 'vsfb_9f2c' });

  /** A chat completion that the provider keeps. */
  async function newChat(): Promise<{ completion_id: string }> {
    const messages = [{ role: 'user', content: 'Hi' }];
    const body = { model: 'gpt-5-mini', messages, store: true, metadata: { topic: 'rivers' } };
    const { data } = await client().POST('/v1/chat/completions', { body });
    return { completion_id: data?.id ?? '' };
  }

  /** One call for each operation; a missing one does not compile, one too many neither. */
  const calls: Record<Exclude<keyof Operations, `on${string}`>, () => Promise<void>> = {
    async createChatCompletion() {
      const messages = [{ role: 'user', content: 'Name three rivers in Portugal.' }];
      const { data } = await client().POST('/v1/chat/completions', { body: { model: 'gpt-5-mini', messages } });
      expect(data?.choices[0]?.message.content).to.equal('The Douro, the Tagus and the Mondego.');
    },
    async createImage() {
      const { data } = await client().POST('/v1/images/generations', { body: { prompt: 'A lighthouse' } });
      expect(data?.data[0]?.url).to.equal('https://images.example.com/3f8a.png');
    },
    async createResponse() {
      const { data } = await client().POST('/v1/responses', {
        body: { model: 'gpt-5-mini', input: 'Name three rivers.' },
      });
      expect(data?.status).to.equal('completed');
    },
    async countResponseInputTokens() {
      const { data } = await client().POST('/v1/responses/input_tokens', {
        body: { model: 'gpt-5-mini', input: 'Hi' },
      });
      expect(data?.input_tokens).to.equal(12);
    },
    async compactResponse() {
      const { data } = await client().POST('/v1/responses/compact', { body: { model: 'gpt-5-mini', input: 'Hi' } });
      expect(data?.object).to.equal('response.compaction');
    },
    async retrieveResponse() {
      const { data } = await client().GET('/v1/responses/{response_id}', { params: { path: await newResponse() } });
      expect(data?.id).to.equal('resp_9f2c');
    },
    async cancelResponse() {
      const params = { path: await newResponse() };
      const { data } = await client().POST('/v1/responses/{response_id}/cancel', { params });
      expect(data?.status).to.equal('cancelled');
    },
    async listResponseInputItems() {
      const params = { path: await newResponse(), query: { limit: 20 } };
      const { data } = await client().GET('/v1/responses/{response_id}/input_items', { params });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['msg_9f2c']);
    },
    async deleteResponse() {
      const { data } = await client().DELETE('/v1/responses/{response_id}', { params: { path: await newResponse() } });
      expect(data?.deleted).to.equal(true);
    },
    async createConversation() {
      const { data } = await client().POST('/v1/conversations', { body: { metadata: { topic: 'rivers' } } });
      expect(data?.id).to.equal('conv_9f2c');
    },
    async retrieveConversation() {
      const params = { path: await newConversation() };
      const { data } = await client().GET('/v1/conversations/{conversation_id}', { params });
      expect(data?.object).to.equal('conversation');
    },
    async updateConversation() {
      const params = { path: await newConversation() };
      const body = { metadata: { topic: 'rivers' } };
      const { data } = await client().POST('/v1/conversations/{conversation_id}', { params, body });
      expect(data?.metadata).to.deep.equal({ topic: 'rivers' });
    },
    async deleteConversation() {
      const params = { path: await newConversation() };
      const { data } = await client().DELETE('/v1/conversations/{conversation_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async createConversationItems() {
      const params = { path: await newConversation() };
      const body = { items: [{ type: 'message', role: 'user', content: 'Hi' }] };
      const { data } = await client().POST('/v1/conversations/{conversation_id}/items', { params, body });
      expect(data?.data).to.have.lengthOf(1);
    },
    async listConversationItems() {
      const params = { path: await newConversation() };
      const { data } = await client().GET('/v1/conversations/{conversation_id}/items', { params });
      expect(data?.has_more).to.equal(false);
    },
    async retrieveConversationItem() {
      const params = { path: { ...(await newConversation()), item_id: 'msg_9f2c' } };
      const { data } = await client().GET('/v1/conversations/{conversation_id}/items/{item_id}', { params });
      expect(data?.id).to.equal('msg_9f2c');
    },
    async deleteConversationItem() {
      const params = { path: { ...(await newConversation()), item_id: 'msg_9f2c' } };
      const { data } = await client().DELETE('/v1/conversations/{conversation_id}/items/{item_id}', { params });
      expect(data?.id).to.equal('conv_9f2c');
    },
    async createFile() {
      expect(await newFile()).to.deep.equal({ file_id: 'file-9f2c' });
    },
    async listFiles() {
      await newFile();
      const { data } = await client().GET('/v1/files', { params: { query: { limit: 20, purpose: 'user_data' } } });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['file-9f2c']);
    },
    async retrieveFile() {
      const { data } = await client().GET('/v1/files/{file_id}', { params: { path: await newFile() } });
      expect(data?.filename).to.equal('rivers.jsonl');
    },
    async downloadFile() {
      const params = { path: await newFile() };
      const { data } = await client().GET('/v1/files/{file_id}/content', { params, parseAs: 'text' });
      expect(data).to.include('Which rivers');
    },
    async deleteFile() {
      const { data } = await client().DELETE('/v1/files/{file_id}', { params: { path: await newFile() } });
      expect(data?.deleted).to.equal(true);
    },
    async createUpload() {
      expect(await newUpload()).to.deep.equal({ upload_id: 'upload_9f2c' });
    },
    async addUploadPart() {
      const params = { path: await newUpload() };
      const call = { params, body: { data: 'Tagus' }, bodySerializer: toForm };
      const { data } = await client().POST('/v1/uploads/{upload_id}/parts', call);
      expect(data?.object).to.equal('upload.part');
    },
    async completeUpload() {
      const params = { path: await newUpload() };
      await client().POST('/v1/uploads/{upload_id}/parts', { params, body: { data: 'Tagus' }, bodySerializer: toForm });
      const { data } = await client().POST('/v1/uploads/{upload_id}/complete', {
        params,
        body: { part_ids: ['part_9f2c'] },
      });
      expect(data?.file?.id).to.equal('file-9f2c');
    },
    async cancelUpload() {
      const { data } = await client().POST('/v1/uploads/{upload_id}/cancel', { params: { path: await newUpload() } });
      expect(data?.status).to.equal('cancelled');
    },
    async createBatch() {
      expect(await newBatch()).to.deep.equal({ batch_id: 'batch_9f2c' });
    },
    async listBatches() {
      await newBatch();
      const { data } = await client().GET('/v1/batches', { params: { query: { limit: 20 } } });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['batch_9f2c']);
    },
    async retrieveBatch() {
      const { data } = await client().GET('/v1/batches/{batch_id}', { params: { path: await newBatch() } });
      expect(data?.request_counts?.completed).to.equal(2);
    },
    async cancelBatch() {
      const { data } = await client().POST('/v1/batches/{batch_id}/cancel', { params: { path: await newBatch() } });
      expect(data?.status).to.equal('cancelling');
    },
    async createFineTuningJob() {
      expect(await newJob()).to.deep.equal({ fine_tuning_job_id: 'ftjob-9f2c' });
    },
    async listFineTuningJobs() {
      await newJob();
      const { data } = await client().GET('/v1/fine_tuning/jobs', { params: { query: { limit: 20 } } });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['ftjob-9f2c']);
    },
    async retrieveFineTuningJob() {
      const params = { path: await newJob() };
      const { data } = await client().GET('/v1/fine_tuning/jobs/{fine_tuning_job_id}', { params });
      expect(data?.trained_tokens).to.equal(12_000);
    },
    async cancelFineTuningJob() {
      const params = { path: await newJob() };
      const { data } = await client().POST('/v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel', { params });
      expect(data?.status).to.equal('cancelled');
    },
    async pauseFineTuningJob() {
      const params = { path: await newJob() };
      const { data } = await client().POST('/v1/fine_tuning/jobs/{fine_tuning_job_id}/pause', { params });
      expect(data?.status).to.equal('paused');
    },
    async resumeFineTuningJob() {
      const params = { path: await newJob() };
      const { data } = await client().POST('/v1/fine_tuning/jobs/{fine_tuning_job_id}/resume', { params });
      expect(data?.status).to.equal('running');
    },
    async listFineTuningEvents() {
      const params = { path: await newJob() };
      const { data } = await client().GET('/v1/fine_tuning/jobs/{fine_tuning_job_id}/events', { params });
      expect(data?.data[0]?.message).to.equal('Fine-tuning job started');
    },
    async listFineTuningJobCheckpoints() {
      const params = { path: await newJob() };
      const { data } = await client().GET('/v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints', { params });
      expect(data?.data[0]?.step_number).to.equal(90);
    },
    async deleteModel() {
      const params = { path: await newJob() };
      const { data: job } = await client().GET('/v1/fine_tuning/jobs/{fine_tuning_job_id}', { params });
      const model = job?.fine_tuned_model ?? '';
      const { data } = await client().DELETE('/v1/models/{model}', { params: { path: { model } } });
      expect(data?.deleted).to.equal(true);
    },
    async createContainer() {
      expect(await newContainer()).to.deep.equal({ container_id: 'cntr_9f2c' });
    },
    async listContainers() {
      await newContainer();
      const { data } = await client().GET('/v1/containers', { params: { query: { name: 'Rivers' } } });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['cntr_9f2c']);
    },
    async retrieveContainer() {
      const { data } = await client().GET('/v1/containers/{container_id}', { params: { path: await newContainer() } });
      expect(data?.status).to.equal('running');
    },
    async deleteContainer() {
      const params = { path: await newContainer() };
      const { data } = await client().DELETE('/v1/containers/{container_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async createContainerFile() {
      const call = { params: { path: await newContainer() }, body: { file: 'Tagus' }, bodySerializer: toForm };
      const { data } = await client().POST('/v1/containers/{container_id}/files', call);
      expect(data?.source).to.equal('user');
    },
    async listContainerFiles() {
      const params = { path: await newContainer() };
      const { data } = await client().GET('/v1/containers/{container_id}/files', { params });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['cfile_9f2c']);
    },
    async retrieveContainerFile() {
      const params = { path: await newContainerFile() };
      const { data } = await client().GET('/v1/containers/{container_id}/files/{file_id}', { params });
      expect(data?.path).to.equal('/mnt/data/rivers.csv');
    },
    async deleteContainerFile() {
      const params = { path: await newContainerFile() };
      const { data } = await client().DELETE('/v1/containers/{container_id}/files/{file_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async downloadContainerFile() {
      const call = { params: { path: await newContainerFile() }, parseAs: 'text' } as const;
      const { data } = await client().GET('/v1/containers/{container_id}/files/{file_id}/content', call);
      expect(data).to.equal('year;flow');
    },
    async createSkill() {
      expect(await newSkill()).to.deep.equal({ skill_id: 'skill_9f2c' });
    },
    async listSkills() {
      await newSkill();
      const { data } = await client().GET('/v1/skills', {});
      expect(data?.data.map(({ name }) => name)).to.deep.equal(['rivers']);
    },
    async retrieveSkill() {
      const { data } = await client().GET('/v1/skills/{skill_id}', { params: { path: await newSkill() } });
      expect(data?.latest_version).to.equal('1');
    },
    async updateSkill() {
      const call = { params: { path: await newSkill() }, body: { default_version: '1' } };
      const { data } = await client().POST('/v1/skills/{skill_id}', call);
      expect(data?.default_version).to.equal('1');
    },
    async deleteSkill() {
      const { data } = await client().DELETE('/v1/skills/{skill_id}', { params: { path: await newSkill() } });
      expect(data?.deleted).to.equal(true);
    },
    async downloadSkill() {
      const call = { params: { path: await newSkill() }, parseAs: 'text' } as const;
      const { data } = await client().GET('/v1/skills/{skill_id}/content', call);
      expect(data).to.include('zip');
    },
    async createSkillVersion() {
      const call = { params: { path: await newSkill() }, body: { files: ['Tagus'] }, bodySerializer: toForm };
      const { data } = await client().POST('/v1/skills/{skill_id}/versions', call);
      expect(data?.version).to.equal('1');
    },
    async listSkillVersions() {
      const params = { path: await newSkill() };
      const { data } = await client().GET('/v1/skills/{skill_id}/versions', { params });
      expect(data?.data.map(({ version }) => version)).to.deep.equal(['1']);
    },
    async retrieveSkillVersion() {
      const params = { path: await newSkillVersion() };
      const { data } = await client().GET('/v1/skills/{skill_id}/versions/{version}', { params });
      expect(data?.object).to.equal('skill.version');
    },
    async deleteSkillVersion() {
      const params = { path: await newSkillVersion() };
      const { data } = await client().DELETE('/v1/skills/{skill_id}/versions/{version}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async downloadSkillVersion() {
      const call = { params: { path: await newSkillVersion() }, parseAs: 'text' } as const;
      const { data } = await client().GET('/v1/skills/{skill_id}/versions/{version}/content', call);
      expect(data).to.include('zip');
    },
    async createRealtimeClientSecret() {
      const { data } = await client().POST('/v1/realtime/client_secrets', {
        body: { session: { model: 'gpt-realtime' } },
      });
      expect(data?.value).to.match(/^ek_/);
    },
    async createRealtimeSession() {
      const { data } = await client().POST('/v1/realtime/sessions', { body: { model: 'gpt-realtime' } });
      expect(data?.client_secret.value).to.match(/^ek_/);
    },
    async createRealtimeTranscriptionSession() {
      const body = { input_audio_transcription: { model: 'gpt-4o-transcribe' } };
      const { data } = await client().POST('/v1/realtime/transcription_sessions', { body });
      expect(data?.client_secret.value).to.match(/^ek_/);
    },
    async createRealtimeCall() {
      expect(await newRealtimeCall()).to.deep.equal({ call_id: 'rtc_9f2c' });
    },
    async createRealtimeTranslationClientSecret() {
      const { data } = await client().POST('/v1/realtime/translations/client_secrets', {
        body: { session: { model: 'gpt-realtime-translate' } },
      });
      expect(data?.value).to.match(/^ek_/);
    },
    async createRealtimeTranslationCall() {
      const call = { body: { sdp: 'v=0', session: { model: 'gpt-realtime-translate' } }, parseAs: 'text' } as const;
      const { response } = await client().POST('/v1/realtime/translations/calls', call);
      expect(response.headers.get('location')).to.equal('/v1/realtime/translations/calls/rtc_9f2c');
    },
    async acceptRealtimeCall() {
      const call = { params: { path: await newRealtimeCall() }, body: { model: 'gpt-realtime' } };
      const { response } = await client().POST('/v1/realtime/calls/{call_id}/accept', call);
      expect(response.status).to.equal(200);
    },
    async hangupRealtimeCall() {
      const params = { path: await newRealtimeCall() };
      const { response } = await client().POST('/v1/realtime/calls/{call_id}/hangup', { params });
      expect(response.status).to.equal(200);
    },
    async referRealtimeCall() {
      const call = { params: { path: await newRealtimeCall() }, body: { target_uri: 'tel:+14155550123' } };
      const { response } = await client().POST('/v1/realtime/calls/{call_id}/refer', call);
      expect(response.status).to.equal(200);
    },
    async rejectRealtimeCall() {
      const call = { params: { path: await newRealtimeCall() }, body: { status_code: 486 } };
      const { response } = await client().POST('/v1/realtime/calls/{call_id}/reject', call);
      expect(response.status).to.equal(200);
    },
    async createVectorStore() {
      expect(await newVectorStore()).to.deep.equal({ vector_store_id: 'vs_9f2c' });
    },
    async listVectorStores() {
      await newVectorStore();
      const { data } = await client().GET('/v1/vector_stores', { params: { query: { order: 'asc' } } });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['vs_9f2c']);
    },
    async retrieveVectorStore() {
      const params = { path: await newVectorStore() };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}', { params });
      expect(data?.object).to.equal('vector_store');
    },
    async updateVectorStore() {
      const params = { path: await newVectorStore() };
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}', { params, body: { name: 'Lakes' } });
      expect(data?.id).to.equal('vs_9f2c');
    },
    async deleteVectorStore() {
      const params = { path: await newVectorStore() };
      const { data } = await client().DELETE('/v1/vector_stores/{vector_store_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async searchVectorStore() {
      const params = { path: await newVectorStore() };
      const body = { query: 'longest river' };
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}/search', { params, body });
      expect(data?.data[0]?.file_id).to.equal('file-9f2c');
    },
    async createVectorStoreFile() {
      const params = { path: await newVectorStore() };
      const body = await newFile();
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}/files', { params, body });
      expect(data?.id).to.equal('file-9f2c');
    },
    async listVectorStoreFiles() {
      const params = { path: await newVectorStore() };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}/files', { params });
      expect(data?.data).to.have.length(1);
    },
    async retrieveVectorStoreFile() {
      const params = { path: { ...(await newVectorStore()), file_id: 'file-9f2c' } };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}/files/{file_id}', { params });
      expect(data?.status).to.equal('completed');
    },
    async updateVectorStoreFile() {
      const params = { path: { ...(await newVectorStore()), file_id: 'file-9f2c' } };
      const body = { attributes: { country: 'Portugal' } };
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}/files/{file_id}', { params, body });
      expect(data?.id).to.equal('file-9f2c');
    },
    async deleteVectorStoreFile() {
      const params = { path: { ...(await newVectorStore()), file_id: 'file-9f2c' } };
      const { data } = await client().DELETE('/v1/vector_stores/{vector_store_id}/files/{file_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async retrieveVectorStoreFileContent() {
      const params = { path: { ...(await newVectorStore()), file_id: 'file-9f2c' } };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}/files/{file_id}/content', { params });
      expect(data?.data[0]?.text).to.include('Tagus');
    },
    async createVectorStoreFileBatch() {
      const params = { path: await newVectorStore() };
      const body = { file_ids: [(await newFile()).file_id] };
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}/file_batches', { params, body });
      expect(data?.id).to.equal('vsfb_9f2c');
    },
    async retrieveVectorStoreFileBatch() {
      const params = { path: await newFileBatch() };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}', { params });
      expect(data?.file_counts?.total).to.equal(1);
    },
    async cancelVectorStoreFileBatch() {
      const params = { path: await newFileBatch() };
      const { data } = await client().POST('/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel', {
        params,
      });
      expect(data?.status).to.equal('cancelled');
    },
    async listFilesInVectorStoreBatch() {
      const params = { path: await newFileBatch() };
      const { data } = await client().GET('/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files', {
        params,
      });
      expect(data?.data).to.have.length(1);
    },
    async listChatCompletions() {
      await newChat();
      const { data } = await client().GET('/v1/chat/completions', {
        params: { query: { metadata: { topic: 'rivers' } } },
      });
      expect(data?.data.map(({ id }) => id)).to.deep.equal(['chatcmpl-9f2c']);
    },
    async retrieveChatCompletion() {
      const params = { path: await newChat() };
      const { data } = await client().GET('/v1/chat/completions/{completion_id}', { params });
      expect(data?.id).to.equal('chatcmpl-9f2c');
    },
    async updateChatCompletion() {
      const params = { path: await newChat() };
      const body = { metadata: { topic: 'rivers' } };
      const { data } = await client().POST('/v1/chat/completions/{completion_id}', { params, body });
      expect(data?.object).to.equal('chat.completion');
    },
    async listChatCompletionMessages() {
      const params = { path: await newChat() };
      const { data } = await client().GET('/v1/chat/completions/{completion_id}/messages', { params });
      expect(data?.data).to.have.lengthOf(1);
    },
    async deleteChatCompletion() {
      const params = { path: await newChat() };
      const { data } = await client().DELETE('/v1/chat/completions/{completion_id}', { params });
      expect(data?.deleted).to.equal(true);
    },
    async createCompletion() {
      const { data } = await client().POST('/v1/completions', { body: { model: 'davinci-002', prompt: 'The rivers' } });
      expect(data?.choices[0]?.text).to.equal(' the Douro, the Tagus and the Mondego.');
    },
    async createMessage() {
      const body = { model: 'claude-sonnet-4-5', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] };
      const { data } = await client().POST('/v1/messages', { body });
      expect(data?.content[0]).to.deep.include({ type: 'text', text: 'The Douro, the Tagus and the Mondego.' });
      const streamed = await client().POST('/v1/messages', { body: { ...body, stream: true }, parseAs: 'text' });
      expect(streamed.data).to.match(/message_stop"\}\n\n$/);
      const { error, response } = await clientWith('wrong').POST('/v1/messages', { body });
      expect([response.status, error?.type]).to.deep.equal([401, 'error']);
    },
    async createMessageBatch() {
      expect(await newMessageBatch()).to.deep.equal({ message_batch_id: 'msgbatch_9f2c' });
    },
    async listMessageBatches() {
      await newMessageBatch();
      const { data } = await client().GET('/v1/messages/batches');
      expect(data?.data.map(({ id }) => id)).to.include('msgbatch_9f2c');
    },
    async retrieveMessageBatch() {
      const path = await newMessageBatch();
      const { data } = await client().GET('/v1/messages/batches/{message_batch_id}', { params: { path } });
      expect(data).to.include({ id: path.message_batch_id, type: 'message_batch' });
    },
    async cancelMessageBatch() {
      const path = await newMessageBatch();
      const { data } = await client().POST('/v1/messages/batches/{message_batch_id}/cancel', { params: { path } });
      expect(data?.id).to.equal(path.message_batch_id);
    },
    async downloadMessageBatchResults() {
      const path = await newMessageBatch();
      const results = { params: { path }, parseAs: 'text' } as const;
      const { data } = await client().GET('/v1/messages/batches/{message_batch_id}/results', results);
      expect(data).to.include('rivers');
    },
    async deleteMessageBatch() {
      const path = await newMessageBatch();
      const { data } = await client().DELETE('/v1/messages/batches/{message_batch_id}', { params: { path } });
      expect(data?.type).to.equal('message_batch_deleted');
    },
    async countMessageTokens() {
      const body = { model: 'claude-sonnet-4-5', messages: [{ role: 'user', content: 'Hi' }] };
      const { data } = await client().POST('/v1/messages/count_tokens', { body });
      expect(data?.input_tokens).to.equal(14);
    },
    async createImageEdit() {
      const { data } = await client().POST('/v1/images/edits', {
        body: { prompt: 'Let it be night', image: ['PNG'] },
        bodySerializer: toForm,
      });
      expect(data?.data[0]?.url).to.equal('https://images.example.com/3f8a.png');
    },
    async createImageVariation() {
      const { data } = await client().POST('/v1/images/variations', { body: { image: 'PNG' }, bodySerializer: toForm });
      expect(data?.data[0]?.url).to.equal('https://images.example.com/3f8a.png');
    },
    async createEmbedding() {
      const body = { model: 'text-embedding-3-small', input: 'The harbour at dusk' };
      const { data } = await client().POST('/v1/embeddings', { body });
      expect(data?.data[0]?.embedding).to.deep.equal([0.25, -0.5, 0.125]);
    },
    async createModeration() {
      const { data } = await client().POST('/v1/moderations', { body: { input: 'The harbour at dusk' } });
      expect(data?.results[0]).to.deep.include({ flagged: false });
    },
    async createRerank() {
      const body = { model: 'demo-echo', query: 'Where?', documents: ['The harbour', 'The dusk'] };
      const { data } = await client().POST('/v1/rerank', { body });
      expect(data?.results[0]?.index).to.equal(0);
    },
    async createSpeech() {
      const body = { model: 'gpt-4o-mini-tts', input: 'The harbour at dusk', voice: 'alloy' };
      const { data } = await client().POST('/v1/audio/speech', { body, parseAs: 'text' });
      expect(data).to.equal('(the bytes of the audio)');
    },
    async createTranscription() {
      const body = { model: 'gpt-4o-transcribe', file: 'MP3' };
      const { data } = await client().POST('/v1/audio/transcriptions', { body, bodySerializer: toForm });
      expect(data).to.deep.include({ text: 'The harbour at dusk' });
    },
    async createTranslation() {
      const body = { model: 'whisper-1', file: 'MP3' };
      const { data } = await client().POST('/v1/audio/translations', { body, bodySerializer: toForm });
      expect(data).to.deep.include({ text: 'The harbour at dusk' });
    },
    async listModels() {
      const { data } = await client().GET('/v1/models');
      expect(data?.data.map(({ id }) => id)).to.include.members(['gpt-5-mini', 'meta-llama/Llama-4-Scout']);
    },
    async retrieveModel() {
      const { data } = await client().GET('/v1/models/{model}', { params: { path: { model: 'gpt-5-mini' } } });
      expect(data?.owned_by).to.equal('openai');
    },
    async createApiKey() {
      const { data, response } = await client().POST('/v1/api_keys', {
        body: { name: 'chat server', scopes: ['models'], models: ['gpt-5-mini'], expires_at: '2099-12-31T23:59:59Z' },
      });
      expect(response.status).to.equal(201);
      expect(data).to.include({ name: 'chat server', expires_at: '2099-12-31T23:59:59.000Z' });
      expect(data?.key).to.match(/^emg_/);
    },
    async retrieveUsage() {
      const query = { from: '2026-01-01', to: '2026-01-31', group_by: 'day,model' };
      const { data } = await client().GET('/v1/usage', { params: { query } });
      expect(data).to.deep.equal({ from: '2026-01-01', to: '2026-01-31', data: [], has_more: false });
    },
    async listApiKeys() {
      const { data } = await client().GET('/v1/api_keys', { params: { query: { limit: 1 } } });
      expect(data?.data[0]).to.include({ revoked_at: null, models: null });
      expect(data?.data[0]).to.not.have.property('key');
    },
    async deleteApiKey() {
      const { data: made } = await client().POST('/v1/api_keys', { body: { name: '', scopes: ['webhooks'] } });
      const params = { path: { id: made?.id ?? '' } };
      const { data } = await client().DELETE('/v1/api_keys/{id}', { params });
      expect(data).to.deep.equal({ id: made?.id, deleted: true });
    },
    async updateApiKey() {
      const { data: made } = await client().POST('/v1/api_keys', { body: { name: '', scopes: ['models'] } });
      const params = { path: { id: made?.id ?? '' } };
      const body = { budgets: [{ period: 'month' as const, tokens: 1_000_000 }] };
      const { data } = await client().PATCH('/v1/api_keys/{id}', { params, body });
      expect(data?.budgets[0]).to.include({ period: 'month', tokens: 1_000_000 });
    },
    async updateUserApiKey() {
      const path = { user_id: 'usr_2' };
      const { data: made } = await client().POST('/v1/users/{user_id}/api_keys', {
        params: { path },
        body: { name: '', scopes: ['models'], budgets: [{ period: 'day', requests: 1 }] },
      });
      expect(made?.budgets).to.have.length(1);
      const params = { path: { ...path, id: made?.id ?? '' } };
      const { data } = await client().PATCH('/v1/users/{user_id}/api_keys/{id}', { params, body: { budgets: [] } });
      expect(data?.budgets).to.deep.equal([]);
    },
    async listBudgets() {
      const { data } = await client().GET('/v1/budgets');
      expect(data).to.deep.equal({ data: [] });
    },
    async updateUserBudgets() {
      const params = { path: { user_id: 'usr_2' } };
      const body = { budgets: [{ period: 'total' as const, tokens: 1_000 }] };
      const { data } = await client().PUT('/v1/users/{user_id}/budgets', { params, body });
      expect(data?.data[0]).to.include({ period: 'total', tokens: 1_000, resets_at: null });
    },
    async listUserBudgets() {
      const { data } = await client().GET('/v1/users/{user_id}/budgets', { params: { path: { user_id: 'usr_4' } } });
      expect(data).to.deep.equal({ data: [] });
    },
    async listStoredObjects() {
      const { data } = await client().GET('/v1/stored_objects', {
        params: { query: { kind: 'vector_store', limit: 1 } },
      });
      expect(data?.data.every(({ kind }) => kind === 'vector_store')).to.equal(true);
      expect(data?.totals).to.be.an('array');
    },
    async listUserStoredObjects() {
      const path = { user_id: 'usr_4' };
      const { data } = await client().GET('/v1/users/{user_id}/stored_objects', { params: { path } });
      expect(data).to.deep.equal({ data: [], has_more: false, totals: [] });
    },
    async createUserApiKey() {
      const { data, response } = await client().POST('/v1/users/{user_id}/api_keys', {
        params: { path: { user_id: 'usr_2' } },
        body: { name: '', scopes: ['models'] },
      });
      expect(response.status).to.equal(201);
      expect(data?.key).to.match(/^emg_/);
    },
    async listUserApiKeys() {
      const { data } = await client().GET('/v1/users/{user_id}/api_keys', { params: { path: { user_id: 'usr_2' } } });
      expect(data?.data[0]).to.include({ name: '', revoked_at: null });
    },
    async deleteUserApiKey() {
      const path = { user_id: 'usr_3' };
      const { data: made } = await client().POST('/v1/users/{user_id}/api_keys', {
        params: { path },
        body: { name: '', scopes: ['models'] },
      });
      const { data } = await client().DELETE('/v1/users/{user_id}/api_keys/{id}', {
        params: { path: { ...path, id: made?.id ?? '' } },
      });
      expect(data).to.deep.equal({ id: made?.id, deleted: true });
    },
    async publishEvent() {
      const { data, response } = await client().POST('/v1/events', {
        params: { header: { 'Idempotency-Key': 'order-17' } },
        body: { type: 'credits.depleted', user_id: 'usr_1', data: { user_id: 'usr_1', credits_remaining: 0 } },
      });
      expect(response.status).to.equal(201);
      expect(data).to.include({ type: 'credits.depleted', user_id: 'usr_1', idempotency_key: 'order-17' });
    },
    async listEvents() {
      const query = { type: 'api_key.created', limit: 1 } as const;
      const { data } = await client().GET('/v1/events', { params: { query } });
      expect(data?.data[0]).to.include({ type: 'api_key.created', test: false });
    },
    async retrieveEvent() {
      const { data: page } = await client().GET('/v1/events');
      const params = { path: { id: page?.data[0]?.id ?? '' } };
      const { data } = await client().GET('/v1/events/{id}', { params });
      expect(data).to.deep.equal(page?.data[0]);
    },
    async listEventTypes() {
      const { data } = await client().GET('/v1/event_types');
      expect(data?.data.map(({ type }) => type)).to.deep.equal(Object.keys(spec.webhooks));
    },
    async reportPayment() {
      const payment = { payment_id: 'pay_1', user_id: 'usr_1', amount: 25, currency: 'usd' };
      const { data, response } = await client().POST('/v1/payments', {
        body: { status: 'completed', ...payment, credits_added: 2500 },
      });
      expect(response.status).to.equal(201);
      expect(data).to.include({ type: 'payment.completed', idempotency_key: 'payment.completed:pay_1' });
    },
    async retrieveCredits() {
      const { data } = await client().GET('/v1/credits');
      expect(data).to.include({ low_threshold: 5 });
    },
    async topUpCredits() {
      const { data, response } = await client().POST('/v1/credits/top_ups', {
        params: { header: { 'Idempotency-Key': 'welcome' } },
        body: { user_id: 'usr_4', credits: 500 },
      });
      expect(response.status).to.equal(201);
      const balance = { credits_remaining: 500, low_threshold: 5 };
      expect(data).to.deep.equal({ user_id: 'usr_4', credits: 500, idempotency_key: 'welcome', ...balance });
    },
    async listAccounts() {
      const { data } = await client().GET('/v1/admin/accounts', { params: { query: { limit: 1, prefix: 'usr_1' } } });
      expect(data?.data[0]).to.include({ user_id: 'usr_1' });
    },
    async listProcesses() {
      const { data } = await client().GET('/v1/admin/processes');
      expect(data?.data[0]).to.include({ role: 'all', is_live: true });
    },
    async listUpstreams() {
      const { data } = await client().GET('/v1/admin/upstreams');
      expect(data?.data[0]).to.include({ processes: 1 });
    },
    async retrieveBacklog() {
      const { data } = await client().GET('/v1/admin/backlog');
      expect(data).to.include({ due_is_more: false, oldest_fan_out_seconds: 0 });
    },
    async retrieveAccount() {
      const { data } = await client().GET('/v1/admin/accounts/{user_id}', { params: { path: { user_id: 'usr_1' } } });
      expect(data?.account.api_keys.working).to.be.above(0);
    },
    async listFailingWebhooks() {
      const { data } = await client().GET('/v1/admin/webhooks', { params: { query: { state: 'disabled' } } });
      expect(data).to.deep.equal({ data: [], has_more: false });
    },
    async listRefusals() {
      const { data } = await client().GET('/v1/admin/refusals', { params: { query: { hours: 1, user_id: 'usr_2' } } });
      expect(data).to.deep.include({ data: [], has_more: false });
    },
    async searchIds() {
      const { data } = await client().GET('/v1/admin/search', { params: { query: { id: 'usr_1' } } });
      expect(data?.data).to.deep.equal([{ type: 'account', id: 'usr_1', user_id: 'usr_1', created_at: null }]);
    },
    async createWebhook() {
      const { data, response } = await client().POST('/v1/webhooks', { body: webhook });
      expect(response.status).to.equal(201);
      expect(data).to.include({ url: webhook.url, active: true });
      expect(data).to.not.have.property('secret');
    },
    async listWebhooks() {
      const id = await newWebhook();
      const { data } = await client().GET('/v1/webhooks', { params: { query: { limit: 100 } } });
      expect(data?.data.at(-1)).to.include({ id, active: true });
      expect(data?.has_more).to.equal(false);
    },
    async retrieveWebhook() {
      const path = { id: await newWebhook() };
      const { data } = await client().GET('/v1/webhooks/{id}', { params: { path } });
      expect(data).to.include({ id: path.id, secret_rotation: null, disabled: null });
      expect(data?.health.state).to.equal('idle');
      expect(data).to.not.have.property('secret');
    },
    async updateWebhook() {
      const path = { id: await newWebhook() };
      const { data } = await client().PATCH('/v1/webhooks/{id}', { params: { path }, body: { active: false } });
      expect(data).to.include({ id: path.id, active: false });
      expect(data?.created_at).to.match(/Z$/);
    },
    async rotateWebhookSecret() {
      const path = { id: await newWebhook() };
      const { data } = await client().POST('/v1/webhooks/{id}/rotate_secret', {
        params: { path },
        body: { secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD', overlap_seconds: 3600 },
      });
      expect(data).to.include({ id: path.id, active: true });
      expect(data?.secret_rotation?.service_signature).to.equal('new');
      expect(Date.parse(data?.secret_rotation?.ends_at ?? '')).to.be.closeTo(Date.now() + 3_600_000, 60_000);
      expect(data).to.not.have.property('secret');
    },
    async testWebhook() {
      const { id } = await sentTest();
      const { data } = await client().GET('/v1/deliveries/{id}', { params: { path: { id } } });
      expect(data).to.include({ test: true, state: 'failed', last_code: 'connect_refused', max_attempts: 1 });
    },
    async listDeliveries() {
      const { id, webhookId } = await sentTest();
      const query = { webhook_id: webhookId, state: 'failed', since: '2026-01-01T00:00:00Z' } as const;
      const { data } = await client().GET('/v1/deliveries', { params: { query } });
      expect(data?.data.map((delivery) => delivery.id)).to.deep.equal([id]);
    },
    async retrieveDelivery() {
      const { id } = await sentTest();
      const { data } = await client().GET('/v1/deliveries/{id}', { params: { path: { id } } });
      expect(data?.url).to.equal(webhook.url);
      expect(data?.attempts[0]?.explanation).to.match(/^Nothing accepts connections/);
    },
    async resendDelivery() {
      const path = { id: (await sentTest()).id };
      const { data } = await client().POST('/v1/deliveries/{id}/resend', { params: { path } });
      expect(data?.attempts.map(({ number, manual }) => [number, manual])).to.deep.equal([
        [1, false],
        [null, true],
      ]);
    },
    async recoverWebhook() {
      const path = { id: await newWebhook() };
      const body = { since: new Date(Date.now() - 60_000).toISOString() };
      const { data, response } = await client().POST('/v1/webhooks/{id}/recover', { params: { path }, body });
      expect(response.status).to.equal(202);
      expect(data).to.include({ webhook_id: path.id, found: 0, resent: 0 });
    },
    async listRecoveries() {
      const path = { id: await newWebhook() };
      const { data } = await client().GET('/v1/webhooks/{id}/recoveries', { params: { path } });
      expect(data).to.deep.equal({ data: [], has_more: false });
    },
    async retrieveRecovery() {
      const path = { id: await newWebhook() };
      const body = { since: new Date(Date.now() - 60_000).toISOString(), states: ['failed' as const] };
      const { data: begun } = await client().POST('/v1/webhooks/{id}/recover', { params: { path }, body });
      const { data } = await client().GET('/v1/webhooks/{id}/recoveries/{recovery_id}', {
        params: { path: { ...path, recovery_id: begun?.id ?? '' } },
      });
      expect(data).to.deep.include({ id: begun?.id, states: ['failed'], found: 0 });
    },
    async retrieveWebhookStats() {
      const path = { id: await newWebhook() };
      const { data } = await client().GET('/v1/webhooks/{id}/stats', { params: { path } });
      expect(data).to.include({ attempts: 0, success_rate: null, p50_ms: null });
      expect(data?.hours).to.have.length(168);
    },
    async deleteWebhook() {
      const path = { id: await newWebhook() };
      const { data } = await client().DELETE('/v1/webhooks/{id}', { params: { path } });
      expect(data).to.deep.equal({ id: path.id, deleted: true });
    },
  };

  for (const [operationId, call] of Object.entries(calls)) {
    it(`calls ${operationId}`, call);
  }

  it('reads a streamed chat completion', async () => {
    const messages = [{ role: 'user', content: 'What is a webhook?' }];
    const { data } = await client().POST('/v1/chat/completions', {
      body: { model: 'gpt-5-mini', messages, stream: true },
      parseAs: 'text',
    });
    expect(data).to.match(/^data: \{.*\n\n.*data: \[DONE\]\n\n$/s);
  });

  it('reads webhooks page by page', async () => {
    const first = await newWebhook();
    const second = await newWebhook();
    const { data } = await client().GET('/v1/webhooks', { params: { query: { limit: 1, after: first } } });
    expect(data?.data.map(({ id }) => id)).to.deep.equal([second]);
  });

  it('reads which field is wrong, and the error code', async () => {
    const { error, response } = await client().POST('/v1/webhooks', {
      // compiles: an operator may have added it
      body: { ...webhook, events: ['payment.refunded'] },
    });
    expect(response.status).to.equal(400);
    expect(error?.error).to.include({ code: 'invalid_value', param: 'events[0]' });
  });

  it('reads that a webhook does not exist', async () => {
    const params = { path: { id: 'wh_nobody' } };
    const { error } = await client().DELETE('/v1/webhooks/{id}', { params });
    expect(error?.error.code).to.equal('webhook_not_found');
  });

  it("reads a provider's own error", async () => {
    upstream.script = json(422, { error: { message: 'Too long', type: 'invalid', param: 'input', code: 'too_long' } });
    const { error, response } = await client().POST('/v1/embeddings', { body: { model: 'm', input: 'x' } });
    upstream.script = provider;
    expect(response.status).to.equal(422);
    expect(error?.error?.code).to.equal('too_long');
  });

  it('gets the documented 401 from every operation without a key', async () => {
    for (const { method, path } of operations) {
      const response = await fetch(live.url + path, { method: method.toUpperCase() });
      const schema = documentedContent(path, method, 401)['application/json']?.schema;
      expect(response.status, path).to.equal(401);
      expect(misfits(schema ?? {}, await response.json()), path).to.equal('');
    }
  });

  it('covers every operation', () => {
    const documented = operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect([...called]).to.have.members(documented);
  });
});
