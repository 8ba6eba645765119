import { addCustomEventTypes } from '../../src/events/catalogue.ts';
import { AccountMemory } from '../../src/fairness/account-shares.ts';
import { type ApiDependencies, createApi, createReadLimit, createWriteLimit } from '../../src/http/api.ts';
import {
  type Authenticate,
  bearerToken,
  checkedAuthenticate,
  createAuthenticator,
} from '../../src/http/authentication.ts';
import type { ApiRequest, DataOperation, Operation, RelayOperation } from '../../src/http/operation.ts';
import type { Operations } from '../../src/http/router.ts';
import { createRouter, type GatewayRouter } from '../../src/http/router.ts';
import { scopes } from '../../src/index.ts';
import { type Listening, listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { type Spec, type SpecSchema, spec } from '../support/openapi.ts';

export const goodKey = 'key-that-is-good';

const relayed = new Set([
  'createChatCompletion',
  'createCompletion',
  'createImage',
  'createImageEdit',
  'createImageVariation',
  'createEmbedding',
  'createModeration',
  'createSpeech',
  'createTranscription',
  'createTranslation',
  'listModels',
  'retrieveModel',
]);

/** What an operation was called with, as JSON can say it. */
export function echo(request: ApiRequest): Record<string, unknown> {
  const { requestId, principal, params, query, body, rawBody } = request;
  return { requestId, principal, params, query, body, raw: rawBody.toString('base64') };
}

const echoData: DataOperation = { handle: async (call) => ({ status: 200, body: echo(call) }) };

const echoRelay: RelayOperation = {
  async relay(call, res) {
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(echo(call)));
  },
};

/** An operation for everything in openapi.yaml, each answering what it was called with. */
export function fakeOperations(own: Operations = {}): Operations {
  const ids = Object.values(spec.paths).flatMap((item) =>
    Object.values(item).flatMap((operation) => ('operationId' in operation ? [operation.operationId] : [])),
  );
  const echoes = ids.map((id) => [id, relayed.has(id) ? echoRelay : echoData] as const);
  return { ...Object.fromEntries(echoes), ...own };
}

/** What one is called with, and what one is. */
export type FakeRequest = Parameters<typeof echo>[0];
export type FakeOperation = ReturnType<typeof fakeOperations>[string];

type FakeEdgeDependencies = Omit<ApiDependencies, 'bodyMemory' | 'limitReads' | 'limitWrites'> & {
  readonly authenticate: Authenticate;
  /** Which of the host's options `authenticate` is. */
  readonly authenticateOption: string;
  /** Bytes of bodies that an account may have under way. */
  readonly bodyMemory: number;
  /** How often an account may read and change in a minute. */
  readonly readRateLimit: number;
  readonly writeRateLimit: number;
};

const byGoodKey: Authenticate = (req) => (bearerToken(req) === goodKey ? { userId: 'usr_1' } : null);

/** The edge over fake operations; one API key is good. */
export async function createFakeEdge({
  authenticate = byGoodKey,
  authenticateOption = 'authenticate',
  logger = recordingLogger(),
  bodyMemory,
  readRateLimit,
  writeRateLimit,
  ...own
}: Partial<FakeEdgeDependencies> = {}): Promise<GatewayRouter> {
  const addApi = createApi({
    spec: addCustomEventTypes(spec, {}),
    operations: fakeOperations(),
    modelBodyLimit: 32 * 1024 * 1024,
    webhookBodyLimit: 256 * 1024,
    logger,
    ...(bodyMemory !== undefined && { bodyMemory: new AccountMemory(bodyMemory) }),
    ...(readRateLimit !== undefined && { limitReads: createReadLimit(readRateLimit) }),
    ...(writeRateLimit !== undefined && { limitWrites: createWriteLimit(writeRateLimit) }),
    ...own,
  });
  const router = createRouter(logger, {
    models: ['/v1/chat/completions', '/v1/models'],
    notServed: spec['x-not-served'],
  });
  addApi(router, createAuthenticator({ byKey: checkedAuthenticate(authenticateOption, authenticate) }).byKey);
  return router;
}

/** A server with the edge alone, in which listModels (relayed) and listWebhooks are the test's. */
export async function serve(
  own: { relay?: Operation; data?: Operation } & Partial<FakeEdgeDependencies>,
): Promise<Listening> {
  const { relay, data, ...deps } = own;
  const operations = fakeOperations({ ...(relay && { listModels: relay }), ...(data && { listWebhooks: data }) });
  const edge = await createFakeEdge({ operations, ...deps });
  return listen((req, res) => edge(req, res, () => res.writeHead(299).end()));
}

/** A server with one operation, which takes the JSON of a schema and answers what it was called with. @param named schemas by their names */
export async function serveSchema(schema: SpecSchema, named: Readonly<Record<string, object>> = {}) {
  const content = { 'application/json': { schema } };
  const operationId = 'createThing';
  const post = { operationId, 'x-scope': 'webhooks', requestBody: { required: true, content }, responses: {} };
  const components = { ...spec.components, schemas: { ...spec.components.schemas, ...named } };
  const edge = await createFakeEdge({
    spec: { ...spec, paths: { '/v1/things': { post } }, components } as unknown as Spec,
    operations: { [operationId]: echoData },
    authenticate: () => ({ userId: 'usr_1', scopes }),
  });
  const server = await listen((req, res) => edge(req, res));
  return {
    close: server.close,
    async send(text: string) {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`${server.url}/v1/things`, { method: 'POST', headers, body: text });
      const answer = (await response.json()) as { body?: unknown; error?: { code: string; param: string | null } };
      return { status: response.status, ...answer };
    },
  };
}
