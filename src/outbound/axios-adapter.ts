import {
  type AxiosAdapter,
  AxiosHeaders,
  type AxiosResponse,
  CanceledError,
  type InternalAxiosRequestConfig,
} from 'axios';
import type { Dispatcher } from 'undici';
import { classify, isLengthMismatch, outboundError } from './classify.ts';
import type { OutboundError } from './outbound-error.ts';
import { ResponseBody } from './response-body.ts';

type Headers = Record<string, string | string[]>;

/** Responses before the final one (1xx) that are passed over; a flood of them is not HTTP any more. */
const interimLimit = 20;

/** RFC 9110, section 8.6: these have no body, whatever length they announce. */
const bodiless: ReadonlySet<number> = new Set([204, 304]);

function headersOf(config: InternalAxiosRequestConfig): string[] {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(config.headers)) {
    if (value === null || value === undefined || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) lines.push(name, String(one));
  }
  return lines;
}

/** A URL that parsing would leave as it is: nothing to normalise, no user, no fragment. */
const plainUrl = /^(https?:\/\/[a-z0-9.-]+(?::\d+)?)(\/[\w\-~:@!$&'()*+,;=%/?]*)$/;

/** The origin of a URL and what is asked of it. @throws TypeError `ERR_INVALID_URL` */
function splitUrl(url: string): { origin: string; path: string } {
  const [, origin, path] = plainUrl.exec(url) ?? [];
  if (origin !== undefined && path !== undefined) return { origin, path };
  const parsed = new URL(url);
  return { origin: parsed.origin, path: parsed.pathname + parsed.search };
}

function requestOf(config: InternalAxiosRequestConfig): Dispatcher.DispatchOptions {
  return {
    ...splitUrl(config.url ?? ''),
    method: (config.method ?? 'get').toUpperCase() as Dispatcher.HttpMethod,
    headers: headersOf(config),
    body: config.data ?? null,
  };
}

/** One request on its way: joins undici's callbacks, the caller's signal and the promise axios waits for. */
class Exchange implements Dispatcher.DispatchHandler {
  #config: InternalAxiosRequestConfig;
  #signal: AbortSignal | undefined;
  #resolve: (response: AxiosResponse<ResponseBody>) => void;
  #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #body: ResponseBody | null = null;
  #status = 0;
  #interims = 0;
  #answered = false;

  constructor(
    config: InternalAxiosRequestConfig,
    resolve: (response: AxiosResponse<ResponseBody>) => void,
    reject: (error: Error) => void,
  ) {
    this.#config = config;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#signal = config.signal as AbortSignal | undefined;
    this.#signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal?.aborted) controller.abort(classify(this.#signal.reason));
  }

  /** The first byte of an answer: from here on the request counts as received. */
  onResponseStarted(): void {
    this.#answered = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers, statusText = ''): void {
    if (status < 200) {
      this.#onInterim(controller);
      return;
    }
    this.#status = status;
    this.#body = new ResponseBody(controller, this.#settled);
    // as axios would make them, but with names and values as they came
    const axiosHeaders = Object.assign(new AxiosHeaders(), headers);
    const response = { data: this.#body, status, statusText, headers: axiosHeaders, config: this.#config };
    this.#resolve(response as AxiosResponse<ResponseBody>);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#body?.settle('end');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#body) this.#body.settle(this.#endOfBody(error));
    else this.#fail(error);
  }

  #onInterim(controller: Dispatcher.DispatchController): void {
    this.#interims += 1;
    if (this.#interims > interimLimit) controller.abort(outboundError('invalid_response'));
  }

  #endOfBody(error: Error): 'end' | OutboundError {
    if (!isLengthMismatch(error)) return classify(error);
    return bodiless.has(this.#status) ? 'end' : outboundError('reset', error);
  }

  #fail(error: unknown): void {
    const failure = classify(error);
    this.#settled();
    // a socket counts as reused by the bytes it has read, which may have been this answer's
    this.#reject(failure.reusedSocket && this.#answered ? outboundError(failure.code, error) : failure);
  }

  #settled = (): void => {
    this.#signal?.removeEventListener('abort', this.#onAbort);
  };

  #onAbort = (): void => {
    const error = classify(this.#signal?.reason);
    if (this.#controller) this.#controller.abort(error);
    else this.#abandon(error.code === 'timeout' ? outboundError('connect_timeout', error) : error);
  };

  /** Still waiting for a connection: the caller is told now, undici when it starts the request. */
  #abandon(cause: OutboundError): void {
    this.#settled();
    // once a signal has aborted, axios puts a CanceledError in the place of everything else
    this.#reject(Object.assign(new CanceledError(), { cause }));
  }
}

/**
 * An axios adapter over an undici dispatcher, at a fraction of the cost of axios' own. The response's `data` is a
 * {@link ResponseBody}. Every status resolves; redirects, decompression, proxies from the environment do not exist
 * here. `url` is absolute, `signal` covers the whole call, body included; axios' `timeout` is not read.
 *
 * Rejects with an `OutboundError`, or with axios' `CanceledError` around one.
 */
export function createAxiosAdapter(dispatcher: Dispatcher): AxiosAdapter {
  return (config) =>
    new Promise((resolve, reject) => {
      dispatcher.dispatch(requestOf(config), new Exchange(config, resolve, reject));
    });
}
