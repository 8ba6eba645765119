import { addCustomEventTypes } from '../../src/events/catalogue.ts';
import { type ApiDependencies, createApi } from '../../src/http/api.ts';
import { type Authenticate, bearerToken, createAuthenticator } from '../../src/http/authentication.ts';
import type { ApiRequest, DataOperation, Operation, RelayOperation } from '../../src/http/operation.ts';
import type { Operations } from '../../src/http/router.ts';
import { createRouter, type GatewayRouter } from '../../src/http/router.ts';
import { sharedSpec } from '../../src/openapi/spec.ts';
import { type Listening, listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';

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
  const ids = Object.values(sharedSpec().paths).flatMap((item) =>
    Object.values(item).flatMap((operation) => ('operationId' in operation ? [operation.operationId] : [])),
  );
  const echoes = ids.map((id) => [id, relayed.has(id) ? echoRelay : echoData] as const);
  return { ...Object.fromEntries(echoes), ...own };
}

type FakeEdgeDependencies = ApiDependencies & { readonly authenticate: Authenticate };

const byGoodKey: Authenticate = (req) => (bearerToken(req) === goodKey ? { userId: 'usr_1' } : null);

/** The edge over fake operations; one API key is good. */
export async function createFakeEdge({
  authenticate = byGoodKey,
  logger = recordingLogger(),
  ...own
}: Partial<FakeEdgeDependencies> = {}): Promise<GatewayRouter> {
  const addApi = createApi({
    spec: addCustomEventTypes(sharedSpec(), {}),
    operations: fakeOperations(),
    modelBodyLimit: 32 * 1024 * 1024,
    webhookBodyLimit: 256 * 1024,
    logger,
    ...own,
  });
  const router = createRouter(logger, {
    models: ['/v1/chat/completions', '/v1/models'],
    notServed: sharedSpec()['x-not-served'],
  });
  addApi(router, createAuthenticator({ byKey: authenticate }).byKey);
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
