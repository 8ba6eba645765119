import { Axios, AxiosHeaders, type AxiosRequestConfig, type AxiosResponse, CanceledError, isAxiosError } from 'axios';
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

function isHooked({ interceptors: { request, response } }: Axios): boolean {
  return (request.handlers?.length ?? 1) > 0 || (response.handlers?.length ?? 1) > 0;
}

/**
 * The axios instance through which the gateway calls the outside. Bytes go as they are given and come as they are
 * sent; no default headers. Hook into it by `interceptors`; as long as nobody does, a call goes straight to the adapter,
 * for axios' merging of defaults that are not there costs more than the call. Rejects with an `OutboundError`.
 */
export function createHttpClient(dispatcher: Dispatcher): Axios {
  const adapter = createAxiosAdapter(dispatcher);
  // the bare class has no defaults: no transforms, no headers
  const client = new Axios({ adapter });
  const throughAxios = client.request.bind(client);

  async function send(config: AxiosRequestConfig): Promise<AxiosResponse> {
    try {
      if (isHooked(client)) return await throughAxios(config);
      if (config.signal?.aborted) throw new CanceledError(undefined, { ...config, headers: new AxiosHeaders() });
      return await adapter({ ...config, headers: Object.assign(new AxiosHeaders(), config.headers) });
    } catch (error) {
      return withoutRequest(error);
    }
  }
  client.request = send as Axios['request'];
  return client;
}
