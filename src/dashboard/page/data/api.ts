import createClient, { type Client, type ClientPathsWithMethod, type MethodResponse } from 'openapi-fetch';
import type { paths } from '../../../api.d.ts';
import { ApiError, toApiError } from './error.ts';
import type { DescribedCode, Session } from './types.ts';

/** The API by its paths in openapi.yaml. Everything rejects with an ApiError. */
export type Api = Client<paths>;

/** What can be read. */
export type ReadPath = ClientPathsWithMethod<Api, 'get'>;

export type DeletePath = ClientPathsWithMethod<Api, 'delete'>;

/** What the API answers when it is read. */
export type ReadResult<Path extends ReadPath> = MethodResponse<Api, 'get', Path>;

type ParametersOf<Path extends ReadPath> = paths[Path] extends {
  get: { parameters: infer Known extends { path?: unknown; query?: unknown } };
}
  ? Known
  : never;

/** What may be set from the page's address, and so be anything: the API checks it. What is not set is left out. */
type FromAddress<T> = {
  readonly [Name in keyof T]?: T[Name] | (T[Name] extends number | undefined ? never : string) | undefined;
};

/** By what a list may be narrowed. */
export type Filter<Path extends ReadPath> = FromAddress<NonNullable<ParametersOf<Path>['query']>>;

/** The parameters of what is read. */
export type ReadParameters<Path extends ReadPath> = Pick<ParametersOf<Path>, 'path'> & {
  readonly query?: Filter<Path>;
};

const authorization = (key: string | null) => (key === null ? {} : { authorization: `Bearer ${key}` });

/** @param key without one, the host's own session says who the caller is */
export function createApiClient(key: string | null): Api {
  return createClient<paths>({ baseUrl: pageFolder(), fetch: reach, headers: authorization(key) });
}

export async function readSession(key: string | null): Promise<Session> {
  const response = await reach(new Request(`${pageFolder()}/session`, { headers: authorization(key) }));
  return response.json();
}

/** Every code of an error and what it means. */
export async function readCodes(key: string | null, signal: AbortSignal): Promise<readonly DescribedCode[]> {
  const response = await reach(new Request(`${pageFolder()}/errors.json`, { headers: authorization(key), signal }));
  return (await response.json()).data;
}

/** What the gateway says of itself in the page's document. */
export function gatewaySettings() {
  const { signIn, reference, usage, credits, root = '' } = document.getElementById('app')?.dataset ?? {};
  return {
    hasSessions: signIn === 'session',
    hasReference: reference === 'true',
    hasUsage: usage === 'true',
    hasCredits: credits === 'true',
    /** Where the API is, as OpenAI's clients want it: with `/v1`. */
    baseUrl: new URL(`${root}v1`, window.location.href).href,
  };
}

export function read<Path extends ReadPath>(
  api: Api,
  path: Path,
  params: ReadParameters<Path>,
  signal: AbortSignal,
): Promise<ReadResult<Path>> {
  return dataOf(api.GET(path, { params, signal } as never));
}

/**
 * What a call is answered with.
 * @throws ApiError for a success without a body, which is no answer of the API
 */
export async function dataOf<T>(call: Promise<{ data?: T; response: Response }>): Promise<T> {
  const { data, response } = await call;
  if (data === undefined) throw toApiError(response, data);
  return data;
}

/** The page's own folder, without a slash at its end; everything the page asks for is in there. */
function pageFolder(): string {
  return new URL('.', window.location.href).href.replace(/\/$/, '');
}

/**
 * As `fetch`.
 * @throws ApiError where no answer came, and for any that is no success, or has no body, which is no answer of the API
 */
async function reach(request: Request): Promise<Response> {
  const response = await fetch(request).catch((error: unknown) => {
    if (request.signal.aborted) throw error;
    throw new ApiError('The gateway cannot be reached. Check your connection; this page tries again.', {
      status: 0,
      code: 'unreachable',
    });
  });
  if (!response.ok || response.status === 204) throw toApiError(response, await response.json().catch(() => undefined));
  return response;
}
