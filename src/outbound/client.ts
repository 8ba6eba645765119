import { Axios, AxiosHeaders, type AxiosRequestConfig, type AxiosResponse, CanceledError, isAxiosError } from 'axios';
import type { Dispatcher } from 'undici';
import { createAxiosAdapter } from './axios-adapter.ts';
import { classify } from './classify.ts';
import { exchange, type OutboundRequest, type OutboundResponse } from './exchange.ts';
import type { ResponseBody } from './response-body.ts';

/** Axios' own errors carry the request with its headers; these must not travel on. */
function withoutRequest(error: unknown): never {
  if (error instanceof CanceledError) {
    throw classify(error.cause ?? (error.config?.signal as AbortSignal | undefined)?.reason);
  }
  throw classify(isAxiosError(error) ? { code: error.code } : error);
}

/** A request as axios has it. */
function configOf({ origin, path, method, headers, body, signal, onSend }: OutboundRequest): AxiosRequestConfig {
  const axiosHeaders = new AxiosHeaders();
  for (let i = 0; i < headers.length; i += 2) axiosHeaders.set(headers[i] as string, headers[i + 1] as string);
  // hooks see a body as one
  const data = Array.isArray(body) ? Buffer.concat(body) : body;
  const config = { url: origin + path, method, headers: axiosHeaders, data, signal, onSend };
  return config as AxiosRequestConfig;
}

function isHooked({ interceptors: { request, response } }: Axios): boolean {
  return (request.handlers?.length ?? 1) > 0 || (response.handlers?.length ?? 1) > 0;
}

/** An axios instance with a shorter way beside its own. */
export interface HttpClient extends Axios {
  /** What `request` does, for those who need nothing of axios: it is left out as long as nobody hooks into it. */
  send(request: OutboundRequest): Promise<OutboundResponse>;
}

/**
 * The axios instance through which the gateway calls the outside. Bytes go as they are given and come as they are
 * sent; no default headers. Hook into it by `interceptors`; as long as nobody does, a call goes straight to the adapter,
 * for axios' merging of defaults that are not there costs more than the call. Rejects with an `OutboundError`.
 */
export function createHttpClient(dispatcher: Dispatcher): HttpClient {
  const adapter = createAxiosAdapter(dispatcher);
  // the bare class has no defaults: no transforms, no headers
  const client = new Axios({ adapter });
  const throughAxios = client.request.bind(client);

  async function request(config: AxiosRequestConfig): Promise<AxiosResponse> {
    try {
      if (isHooked(client)) return await throughAxios(config);
      if (config.signal?.aborted) throw new CanceledError(undefined, { ...config, headers: new AxiosHeaders() });
      return await adapter({ ...config, headers: Object.assign(new AxiosHeaders(), config.headers) });
    } catch (error) {
      return withoutRequest(error);
    }
  }

  function send(given: OutboundRequest): Promise<OutboundResponse> {
    if (isHooked(client)) return client.request<ResponseBody, OutboundResponse>(configOf(given));
    const { signal } = given;
    return signal?.aborted ? Promise.reject(classify(signal.reason)) : exchange(dispatcher, given);
  }

  return Object.assign(client, { request: request as Axios['request'], send });
}
