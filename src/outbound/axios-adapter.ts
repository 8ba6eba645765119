import {
  type AxiosAdapter,
  AxiosHeaders,
  type AxiosResponse,
  CanceledError,
  type InternalAxiosRequestConfig,
} from 'axios';
import type { Dispatcher } from 'undici';
import { type Abortable, exchange, type OutboundRequest } from './exchange.ts';
import { splitUrl } from './url.ts';

function headersOf(config: InternalAxiosRequestConfig): string[] {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(config.headers)) {
    if (value === null || value === undefined || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) lines.push(name, String(one));
  }
  return lines;
}

/** What axios' options and the one of ours ask for. */
function requestOf(config: InternalAxiosRequestConfig & Pick<OutboundRequest, 'onSend'>): OutboundRequest {
  return {
    ...splitUrl(config.url ?? ''),
    method: (config.method ?? 'get').toUpperCase() as Dispatcher.HttpMethod,
    headers: headersOf(config),
    body: config.data ?? null,
    signal: config.signal as Abortable | undefined,
    onSend: config.onSend,
  };
}

/**
 * An axios adapter over {@link exchange}. The response's `data` is a `ResponseBody`. `url` is absolute, `signal` covers
 * the whole call, body included; axios' `timeout` is not read.
 *
 * Rejects with an `OutboundError`, or with axios' `CanceledError` around one.
 */
export function createAxiosAdapter(dispatcher: Dispatcher): AxiosAdapter {
  return async (config) => {
    try {
      const { data, status, statusText, headers } = await exchange(dispatcher, requestOf(config));
      // as axios would make them, but with names and values as they came
      const axiosHeaders = Object.assign(new AxiosHeaders(), headers);
      return { data, status, statusText, headers: axiosHeaders, config } as AxiosResponse;
    } catch (cause) {
      // once a signal has aborted, axios puts a CanceledError in the place of everything else
      throw config.signal?.aborted ? Object.assign(new CanceledError(), { cause }) : cause;
    }
  };
}
