import { request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import type { SpecMediaType } from '../support/openapi.ts';
import { operations, resolved } from '../support/spec.ts';
import { json, type Script, ScriptedUpstream } from '../support/upstream.ts';

/** Whether a path is one of those that a path of openapi.yaml stands for. */
export function matches(template: string, path: string): boolean {
  return new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
}

/** What the provider keeps has an id of its own each. */
const kept: ReadonlySet<string> = new Set([
  '/v1/responses',
  '/v1/conversations',
  '/v1/chat/completions',
  '/v1/files',
  '/v1/uploads',
  '/v1/batches',
  '/v1/fine_tuning/jobs',
  '/v1/containers',
  '/v1/skills',
  '/v1/vector_stores',
]);
let made = 0;

function newlyNamed(value: unknown): unknown {
  made += 1;
  const object = value as { readonly id: string };
  return { ...object, id: `${object.id}_${made}` };
}

/** The provider answers each operation with its first example in openapi.yaml. */
const provider: Script = (res, request) => {
  const { pathname } = new URL(request.path, 'http://provider');
  const found = operations.filter(
    ({ method, path }) => method.toUpperCase() === request.method && matches(path, pathname),
  );
  const { operation } = found.find(({ path }) => path === pathname) ?? found[0] ?? {};
  const isCall = /^\/v1\/realtime\/(translations\/)?calls$/.test(pathname);
  const response = resolved(operation?.responses[isCall ? '201' : '200']) as
    | { content?: Record<string, SpecMediaType> }
    | undefined;
  const content = response?.content ?? {};
  if (isCall) {
    made += 1;
    res.setHeader('location', `${pathname}/rtc_${made}`);
  }
  const type = content['application/json'] ? 'application/json' : (Object.keys(content)[0] ?? 'application/json');
  const [example] = Object.values(content[type]?.examples ?? {}).map(resolved);
  const isNew = request.method === 'POST' && kept.has(pathname) && example !== undefined;
  const value = isNew ? newlyNamed(example.value) : example?.value;
  if (operation && !response?.content) res.writeHead(200).end();
  else if (type !== 'application/json') res.writeHead(isCall ? 201 : 200, { 'content-type': type }).end(String(value));
  else return json(example ? 200 : 404, value ?? {})(res, request);
};

/** A type of event that no client has heard of when it is generated. */
export const customType = 'order.shipped';
export const customData = { order_id: 'ord_17' };
const eventTypes = {
  [customType]: {
    description: 'An order has left the warehouse.',
    schema: { type: 'object', required: ['order_id'], properties: { order_id: { type: 'string' } } },
    example: customData,
  },
};

/** A gateway that has everything openapi.yaml describes, in front of a provider that knows its examples. */
export async function startForClients(): Promise<LiveGateway> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = provider;
  const live = await startGateway({
    upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl, apiKey: 'sk-up' }],
    credits: { prices: { '*': {} }, lowThreshold: 5 },
    eventTypes,
  });
  return {
    ...live,
    async close() {
      await live.close();
      await upstream.close();
    },
  };
}

/** What the gateway has answered to one request. */
export interface Answer {
  readonly path: string;
  readonly status: number;
  /** Absent where the answer is no JSON. */
  readonly body?: unknown;
}

/** An address that leads to a gateway, and what the gateway has answered there, in turn. */
export interface Recorder {
  readonly url: string;
  readonly answers: Answer[];
  close(): Promise<void>;
}

/** Records the answers of a gateway, because not every client shows them as they came. */
export async function recordAnswers(gateway: string): Promise<Recorder> {
  const answers: Answer[] = [];
  const { url, close } = await listen((req, res) => {
    const { method, headers } = req;
    const onward = request(new URL(req.url ?? '', gateway), { method, headers }, (answer) => {
      const { statusCode: status = 0 } = answer;
      buffer(answer)
        .then((bytes) => {
          const isJson = answer.headers['content-type']?.includes('json');
          const { pathname } = new URL(req.url ?? '', gateway);
          answers.push({ path: pathname, status, ...(isJson && { body: JSON.parse(bytes.toString()) }) });
          res.writeHead(status, answer.headers).end(bytes);
        })
        .catch((error: Error) => res.destroy(error));
    });
    onward.on('error', (error) => res.destroy(error));
    req.pipe(onward);
  });
  return { url, answers, close };
}
