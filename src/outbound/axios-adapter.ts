import { type AxiosAdapter, AxiosHeaders, type AxiosHeaderValue, type AxiosResponse, CanceledError } from 'axios';
import type { Dispatcher } from 'undici';
import { type Abortable, exchange, type OutboundRequest, type OutboundResponse } from './exchange.ts';
import { splitUrl } from './url.ts';

/**
 * Headers as undici has parsed them, with names in lower case. Axios would normalise them once more, and its time grows with the
 * square of their number: a receiver that sends thousands would delay everything else.
 */
class ReceivedHeaders extends AxiosHeaders {
  constructor(headers: OutboundResponse['headers']) {
    super();
    for (const name in headers) {
      // a header with the name of a method would replace the method
      if (!(name in this)) this[name] = headers[name] as AxiosHeaderValue;
    }
  }

  override normalize(): this {
    return this;
  }
}

/** The part of a request's configuration that is read: five of axios' options and one of the gateway's. */
interface TransportConfig {
  readonly url?: string | undefined;
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, AxiosHeaderValue | undefined>>;
  readonly data?: OutboundRequest['body'];
  readonly signal?: unknown;
  readonly onSend?: OutboundRequest['onSend'];
}

function linesOf(headers: TransportConfig['headers'] = {}): string[] {
  const lines: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (value === null || value === undefined || value === false) continue;
    for (const line of Array.isArray(value) ? value : [value]) lines.push(name, String(line));
  }
  return lines;
}

/** Sends a request. Rejects with an `OutboundError`. */
export function transport(dispatcher: Dispatcher, config: TransportConfig): Promise<OutboundResponse> {
  const { origin, path } = splitUrl(config.url ?? '');
  return exchange(dispatcher, {
    origin,
    path,
    method: (config.method ?? 'get').toUpperCase() as Dispatcher.HttpMethod,
    headers: linesOf(config.headers),
    body: config.data ?? null,
    signal: config.signal as Abortable | undefined,
    onSend: config.onSend,
  });
}

/**
 * An axios adapter over {@link transport}. The response's `data` is a `ResponseBody`. `url` is absolute. `signal` covers the
 * whole call, body included. Axios' `timeout` has no effect.
 *
 * Rejects with an `OutboundError`, or with axios' `CanceledError` around one.
 */
export function createAxiosAdapter(dispatcher: Dispatcher): AxiosAdapter {
  return async (config) => {
    try {
      const { data, status, statusText, headers } = await transport(dispatcher, config);
      return { data, status, statusText, headers: new ReceivedHeaders(headers), config } as AxiosResponse;
    } catch (cause) {
      // when the signal has aborted, axios expects a CanceledError
      throw config.signal?.aborted ? Object.assign(new CanceledError(), { cause }) : cause;
    }
  };
}
