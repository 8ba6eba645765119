import createClient, { type Client } from 'openapi-fetch';
import type { paths } from '../../../api.d.ts';
import { ApiError, toApiError } from './error.ts';

/** The page's own folder, without a slash at its end; everything the page asks for is in there. */
export function pageFolder(): string {
  return new URL('.', window.location.href).href.replace(/\/$/, '');
}

/** As `fetch`, with an ApiError where no answer came. */
export async function reach(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new ApiError('The gateway cannot be reached. Check your connection; this page tries again.', {
      status: 0,
      code: 'unreachable',
    });
  }
}

/** @param key sent as the bearer token; without one, the host's own session says who the caller is */
export function createApiClient(key: string | null): Client<paths> {
  return createClient<paths>({
    baseUrl: pageFolder(),
    fetch: reach,
    ...(key !== null && { headers: { authorization: `Bearer ${key}` } }),
  });
}

/**
 * The data of an answer.
 * @throws ApiError for any answer that is no success
 */
export async function answerOf<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) throw toApiError(response, error);
  return data;
}
