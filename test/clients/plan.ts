import type { LiveGateway } from '../support/gateway.ts';
import { type SpecMediaType, type SpecSchema, spec } from '../support/openapi.ts';
import { operations, resolved } from '../support/spec.ts';
import { customData, customType } from './live.ts';

/** One call that a generated client makes, with values that fit openapi.yaml. */
export interface PlannedCall {
  readonly operationId: string;
  readonly tag: string;
  /** The path with its placeholders. */
  readonly template: string;
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly header: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  /** The names of the body's fields that are files; present where the body is a form. */
  readonly files?: readonly string[];
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

const webhook = { url: 'http://127.0.0.1:9/webhooks/account', events: ['payment.completed', customType] };
const event = { type: customType, user_id: 'usr_1', data: customData };

/** Sends a form with a file. @returns the id of what the provider has made of it */
async function send(live: LiveGateway, path: string, field: string, fields: Record<string, string>): Promise<string> {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  body.append(field, new Blob(['Tagus']), 'rivers.txt');
  const headers = { authorization: `Bearer ${live.key}` };
  const answer = await fetch(`${live.url}${path}`, { method: 'POST', headers, body });
  return ((await answer.json()) as { id: string }).id;
}

/** A file that the provider keeps. @returns its id */
const newFile = (live: LiveGateway) => send(live, '/v1/files', 'file', { purpose: 'user_data' });
const newSkill = (live: LiveGateway) => send(live, '/v1/skills', 'files', {});

/** A call over WebRTC. @returns its id */
async function newCall({ url, key }: LiveGateway): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/sdp' };
  const answer = await fetch(`${url}/v1/realtime/calls?model=gpt-realtime`, { method: 'POST', headers, body: 'v=0' });
  return answer.headers.get('location')?.split('/').pop() ?? '';
}

const batchOf = (input_file_id: string) => ({
  input_file_id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});

const jobOf = (training_file: string) => ({ model: 'gpt-4o-mini', training_file });

/** Bodies of operations whose example does not fit a gateway on this machine. @param file a file of the account */
const bodiesFor = (file: string): Readonly<Record<string, unknown>> => ({
  createWebhook: webhook,
  // what is kept can be retrieved later
  createChatCompletion: { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hi' }], store: true },
  publishEvent: event,
  testWebhook: { type: customType },
  recoverWebhook: { since: new Date(Date.now() - 60_000).toISOString() },
  completeUpload: { part_ids: ['part_9f2c'] },
  createBatch: batchOf(file),
  createFineTuningJob: jobOf(file),
  createContainer: { name: 'Rivers', file_ids: [file] },
  createVectorStore: { name: 'Rivers', file_ids: [file] },
  createVectorStoreFile: { file_id: file },
  createVectorStoreFileBatch: { file_ids: [file] },
});

/** The values of the parameters in a path, of things that the gateway has. */
function pathValues(live: LiveGateway): (operationId: string, path: string) => Promise<Record<string, string>> {
  const made = async (path: string, body: unknown): Promise<string> => {
    const answer = await live.call('POST', path, body);
    if (answer.status > 299) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.id;
  };
  const newWebhook = () => made('/v1/webhooks', webhook);
  const newKey = (path: string) => made(path, { name: 'a key', scopes: ['models'] });
  const newDelivery = async () => made(`/v1/webhooks/${await newWebhook()}/test`, { type: customType });
  const newEvent = () => made('/v1/events', event);
  const newJob = async () => made('/v1/fine_tuning/jobs', jobOf(await newFile(live)));
  /** A model that a job is shown to have made. */
  const newModel = async () => {
    const { body } = await live.call('GET', `/v1/fine_tuning/jobs/${await newJob()}`);
    return { model: body.fine_tuned_model };
  };
  const makers: Readonly<Record<string, () => Promise<Record<string, string>>>> = {
    '/v1/responses/{response_id}': async () => ({
      response_id: await made('/v1/responses', { model: 'gpt-5-mini', input: 'Hi' }),
    }),
    '/v1/conversations/{conversation_id}': async () => ({ conversation_id: await made('/v1/conversations', {}) }),
    '/v1/chat/completions/{completion_id}': async () => ({
      completion_id: await made('/v1/chat/completions', {
        model: 'gpt-5-mini',
        messages: [{ role: 'user', content: 'Hi' }],
        store: true,
      }),
    }),
    '/v1/files/{file_id}': async () => ({ file_id: await newFile(live) }),
    '/v1/uploads/{upload_id}': async () => ({
      upload_id: await made('/v1/uploads', {
        bytes: 5,
        filename: 'a.txt',
        mime_type: 'text/plain',
        purpose: 'user_data',
      }),
    }),
    '/v1/batches/{batch_id}': async () => ({ batch_id: await made('/v1/batches', batchOf(await newFile(live))) }),
    '/v1/fine_tuning/jobs/{fine_tuning_job_id}': async () => ({ fine_tuning_job_id: await newJob() }),
    '/v1/containers/{container_id}': async () => ({ container_id: await made('/v1/containers', { name: 'Rivers' }) }),
    '/v1/skills/{skill_id}': async () => ({ skill_id: await newSkill(live) }),
    '/v1/realtime/calls/{call_id}': async () => ({ call_id: await newCall(live) }),
    '/v1/vector_stores/{vector_store_id}': async () => ({ vector_store_id: await made('/v1/vector_stores', {}) }),
    '/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}': async () => {
      const vector_store_id = await made('/v1/vector_stores', {});
      const file_ids = [await newFile(live)];
      const batch_id = await made(`/v1/vector_stores/${vector_store_id}/file_batches`, { file_ids });
      return { vector_store_id, batch_id };
    },
    '/v1/webhooks/{id}': async () => ({ id: await newWebhook() }),
    '/v1/webhooks/{id}/recoveries/{recovery_id}': async () => {
      const id = await newWebhook();
      const since = new Date(Date.now() - 60_000).toISOString();
      return { id, recovery_id: await made(`/v1/webhooks/${id}/recover`, { since }) };
    },
    '/v1/deliveries/{id}': async () => ({ id: await newDelivery() }),
    '/v1/events/{id}': async () => ({ id: await newEvent() }),
    '/v1/api_keys/{id}': async () => ({ id: await newKey('/v1/api_keys') }),
    '/v1/users/{user_id}/api_keys/{id}': async () => ({
      user_id: 'usr_2',
      id: await newKey('/v1/users/usr_2/api_keys'),
    }),
  };
  return async (operationId, path) => {
    if (operationId === 'deleteModel') return newModel();
    const [longest] = Object.keys(makers)
      .filter((start) => path.startsWith(start))
      .sort((a, b) => b.length - a.length);
    return longest ? (makers[longest]?.() ?? {}) : {};
  };
}

function exampleOf({ example, examples }: Parameter): unknown {
  return example ?? Object.values(examples ?? {})[0]?.value;
}

function filesOf(schema: SpecSchema | undefined): string[] {
  const { properties = {} } = resolved(schema) as { properties?: Record<string, SpecSchema> };
  const isFile = (property: SpecSchema) => /"binary"/.test(JSON.stringify(resolved(property)));
  return Object.entries(properties).flatMap(([name, property]) => (isFile(property) ? [name] : []));
}

/** The body of an operation: what is given, or its first example. */
function bodyOf(given: unknown, content: Readonly<Record<string, SpecMediaType>>): Partial<PlannedCall> {
  const [[type, { schema, examples = {} }] = ['', {}]] = Object.entries(content) as [string, SpecMediaType][];
  const [example] = Object.values(examples).map(resolved);
  const body = given ?? example?.value;
  return type === 'multipart/form-data' ? { body, files: filesOf(schema) } : { body };
}

/**
 * Plans a call of every operation of openapi.yaml, with its example for each parameter and its body. An operation that
 * may be asked without its query is called so as well: a list then has something in it.
 */
export async function planCalls(live: LiveGateway): Promise<PlannedCall[]> {
  const valuesFor = pathValues(live);
  const bodies = bodiesFor(await newFile(live));
  const calls: PlannedCall[] = [];
  for (const { path, operation } of operations) {
    const { operationId, tags: [tag = ''] = [], requestBody } = operation;
    const declared = [...(spec.paths[path]?.parameters ?? []), ...(operation.parameters ?? [])];
    const parameters = declared.map((parameter) => resolved(parameter) as unknown as Parameter);
    const valuesIn = (place: Parameter['in']) =>
      parameters
        .filter((parameter) => parameter.in === place)
        .map((parameter) => [parameter.name, exampleOf(parameter)]);
    const call: PlannedCall = {
      operationId,
      tag,
      template: path,
      path: { ...Object.fromEntries(valuesIn('path')), ...(await valuesFor(operationId, path)) },
      query: {},
      header: Object.fromEntries(valuesIn('header')),
      ...(requestBody && bodyOf(bodies[operationId], requestBody.content)),
    };
    const needsQuery = parameters.some(({ in: place, required }) => place === 'query' && required);
    if (!needsQuery) calls.push(call);
    const query = Object.fromEntries(valuesIn('query'));
    if (Object.keys(query).length > 0) calls.push({ ...call, query });
  }
  // what is deleted cannot be asked for later; what is in something is deleted before it
  const isDelete = ({ operationId }: PlannedCall) => /^delete/.test(operationId);
  const deletes = calls.filter(isDelete).sort((a, b) => b.template.length - a.template.length);
  return [...calls.filter((call) => !isDelete(call)), ...deletes];
}
