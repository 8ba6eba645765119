import { Axios, type AxiosResponse, CanceledError, isAxiosError } from 'axios';
import type { Dispatcher } from 'undici';
import { createAxiosAdapter } from './axios-adapter.ts';
import { classify } from './classify.ts';
import type { ResponseBody } from './response-body.ts';

/** What a call resolves to: any status, with the body still on its way. */
export type HttpResponse = AxiosResponse<ResponseBody>;

/** Axios' own errors carry the request with its headers; these must not travel on. */
function withoutRequest(error: unknown): never {
  if (error instanceof CanceledError) {
    throw classify(error.cause ?? (error.config?.signal as AbortSignal | undefined)?.reason);
  }
  throw classify(isAxiosError(error) ? { code: error.code } : error);
}

/**
 * The axios instance through which the gateway calls the outside. Bytes go as they are given and come as they are
 * sent; no default headers. Hook into it by `interceptors`.
 */
export function createHttpClient(dispatcher: Dispatcher): Axios {
  const client = new Axios({
    adapter: createAxiosAdapter(dispatcher),
    transformRequest: [],
    transformResponse: [],
    validateStatus: () => true,
    maxRedirects: 0,
    proxy: false,
  });
  client.interceptors.response.use(undefined, withoutRequest);
  return client;
}
