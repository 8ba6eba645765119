import { Readable } from 'node:stream';
import createClient, { type Client } from 'openapi-fetch';
import type { components, paths } from '../../api.d.ts';
import { readVersion } from '../../version.ts';
import { CommandFailure, PassingFailure } from '../terminal/command-failure.ts';
import { spanOf } from '../terminal/text.ts';

/** The types of openapi.yaml, by name. */
export type Schemas = components['schemas'];
export type Api = Client<paths, 'application/json'>;

/** Where the gateway is, and the key to use it with. */
export interface Access {
  /** Without `/v1`, without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string;
}

/** Milliseconds to wait for an answer; a resend may take 35 s. */
const requestTimeout = 60_000;
/** The same where a file goes up or comes down. */
const transferTimeout = 3_600_000;

/**
 * The API of a gateway somewhere. No redirect is followed: the key goes where the user said and nowhere else.
 * @returns a client whose calls either answer with data or throw a CommandFailure that says what to do
 */
export function createApiClient({ baseUrl, apiKey }: Access): Api {
  return createClient<paths, 'application/json'>({
    baseUrl,
    headers: { authorization: `Bearer ${apiKey}`, 'user-agent': `express-model-gateway/${readVersion()}` },
    redirect: 'manual',
    async fetch(request) {
      const takesBytes = 'takesBytes' in request;
      const isTransfer = takesBytes || isOf(request, 'multipart/form-data');
      const signal = AbortSignal.timeout(isTransfer ? transferTimeout : requestTimeout);
      const response = await fetch(request, { signal }).catch((error) => {
        throw new PassingFailure(explain(codeOf(error), baseUrl), 1, { cause: error });
      });
      if (response.ok && (takesBytes || isOf(response, 'application/json'))) return response;
      throw await refusalOf(response, baseUrl);
    },
  });
}

/** Asks for the bytes of an answer, whatever they are, as they come: openapi-fetch hands on what is not its own with the request. */
export const asBytes = { parseAs: 'stream', takesBytes: true } as const;

type Send = (method: string, path: string, init: object) => Promise<{ data?: unknown; response: Response }>;

/** Sends a request that only the types of openapi.yaml do not know: its path is a value. */
export const sendTo = ({ request }: Api): Send => request as unknown as Send;

function isOf({ headers }: Request | Response, contentType: string): boolean {
  return headers.get('content-type')?.startsWith(contentType) ?? false;
}

/** What a call answers with: the client's other branch, an error, has been thrown already. */
export async function dataFrom<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  try {
    return (await call).data as Data;
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new PassingFailure('The answer was cut off, or is not JSON.\nTry again.', 1, { cause: error });
  }
}

/** The bytes of an answer as they come; none where it has no body. @throws PassingFailure where they are cut off */
export async function* bytesOf(body: unknown): AsyncGenerator<Uint8Array> {
  if (!body) return;
  try {
    yield* Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);
  } catch (error) {
    throw new PassingFailure('The answer was cut off.\nTry again.', 1, { cause: error });
  }
}

/** Explains an answer other than success to the user. */
async function refusalOf(response: Response, baseUrl: string): Promise<CommandFailure> {
  const error = response.ok ? undefined : await errorIn(response);
  if (!error) return noGateway(response, baseUrl);
  const { status, headers } = response;
  // RFC 9110, section 10.2.3
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  const requestId = headers.get('x-request-id');
  const lines = [
    `${error.code}: ${error.message}`,
    advice[error.code],
    Number.isFinite(seconds) ? `Try again in ${spanOf(seconds * 1_000)}.` : undefined,
    status >= 500 && requestId ? `The operator finds it in the logs as ${requestId}.` : undefined,
  ];
  const Failure = status === 429 || status >= 500 ? PassingFailure : CommandFailure;
  return new Failure(lines.filter((line) => line !== undefined).join('\n'), 1, { param: error.param });
}

const program = 'express-model-gateway';
const giveAKey = 'with --api-key or EXPRESS_MODEL_GATEWAY_API_KEY';

/** What to do about an error, where its message alone does not say it. */
const advice: { readonly [Code in Schemas['ErrorCode']]?: string } = {
  missing_api_key: `Give a key ${giveAKey}.`,
  invalid_api_key: `Give a key of this gateway ${giveAKey}; it may have been revoked, or belong to another gateway.`,
  invalid_authorization: `Give a key as it was printed, emg_…, ${giveAKey}.`,
  insufficient_scope: `Give another key ${giveAKey}, or make one: ${program} keys create --help`,
  webhook_not_found: `Your webhooks: ${program} webhooks list`,
  webhook_inactive: `Resume it first: ${program} webhooks resume <webhook>`,
  delivery_not_found: `Your deliveries: ${program} deliveries list`,
  attempt_in_flight: 'An attempt is being made at this moment; try again when it has ended.',
  recovery_running: 'One is under way for this webhook; try again when it has ended.',
  event_not_found: `Your events: ${program} events list`,
  file_not_found: `Your files: ${program} files list`,
  batch_not_found: `Your batches: ${program} batches list`,
  api_key_not_found: `Your keys: ${program} keys list`,
  idempotency_conflict: 'Use another key, or publish exactly what was published with this one.',
  shutting_down: 'It is shutting down. Try again in a moment.',
  database_unavailable: 'The operator should check that MongoDB is running.',
};

async function errorIn(response: Response): Promise<Schemas['ErrorResponse']['error'] | undefined> {
  try {
    const { error } = JSON.parse(await response.text()) as Schemas['ErrorResponse'];
    return typeof error?.message === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}

function noGateway(response: Response, baseUrl: string): CommandFailure {
  const location = response.headers.get('location');
  const what = location ? `with a redirect to ${location}, which is not followed` : 'but not as this gateway does';
  return new CommandFailure(
    `${baseUrl} answers ${response.status}, ${what}.\nCheck --base-url or EXPRESS_MODEL_GATEWAY_BASE_URL: what stands before /v1.`,
  );
}

const whereItIs = 'say where it is with --base-url or EXPRESS_MODEL_GATEWAY_BASE_URL';

function codeOf(error: unknown): string {
  const { code, cause, name } = error as { code?: string; cause?: unknown; name?: string };
  if (cause) return codeOf(cause);
  return code ?? name ?? 'unknown';
}

/** Explains to the user why a request got no answer. */
function explain(code: string, baseUrl: string): string {
  if (/CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS/.test(code)) {
    const remedy = 'Serve a valid certificate; a CA of your own is trusted through NODE_EXTRA_CA_CERTS=<file>.';
    return `The certificate of ${baseUrl} is not valid (${code}).\n${remedy}`;
  }
  switch (code) {
    case 'ECONNREFUSED':
      return `Nothing answers at ${baseUrl}.\nStart a gateway there (npx express-model-gateway start), or ${whereItIs}.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `There is no host ${new URL(baseUrl).hostname}.\nCheck the name, or ${whereItIs}.`;
    case 'TimeoutError':
    case 'UND_ERR_HEADERS_TIMEOUT':
      return `${baseUrl} did not answer in time.\nTry again. If it happens again, look at the gateway's logs.`;
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return `${baseUrl} closed the connection without an answer.\nTry again; is it http where it should be https?`;
    default:
      return `${baseUrl} cannot be reached (${code}).\nCheck the network, or ${whereItIs}.`;
  }
}
