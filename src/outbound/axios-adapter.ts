import type { AxiosAdapter, AxiosResponse, InternalAxiosRequestConfig } from 'axios';
import type { Dispatcher } from 'undici';
import { classify } from './classify.ts';
import { ResponseBody } from './response-body.ts';

type Headers = Record<string, string | string[]>;

function headersOf(config: InternalAxiosRequestConfig): string[] {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(config.headers)) {
    if (value === null || value === undefined || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) lines.push(name, String(one));
  }
  return lines;
}

function requestOf(config: InternalAxiosRequestConfig): Dispatcher.DispatchOptions {
  const url = new URL(config.url ?? '');
  return {
    origin: url.origin,
    path: url.pathname + url.search,
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

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers, statusText = ''): void {
    if (status < 200) return;
    this.#body = new ResponseBody(controller, this.#settled);
    const response = { data: this.#body, status, statusText, headers, config: this.#config };
    this.#resolve(response as AxiosResponse<ResponseBody>);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#body?.settle('end');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#body) this.#body.settle(classify(error));
    else this.#fail(error);
  }

  #fail(error: unknown): void {
    this.#settled();
    this.#reject(classify(error));
  }

  #settled = (): void => {
    this.#signal?.removeEventListener('abort', this.#onAbort);
  };

  #onAbort = (): void => {
    const error = classify(this.#signal?.reason);
    if (this.#controller) this.#controller.abort(error);
    // still waiting for a connection: the caller is told now, undici when it starts the request
    else this.#fail(error);
  };
}

/**
 * An axios adapter over an undici dispatcher, at a fraction of the cost of axios' own. The response's `data` is a
 * {@link ResponseBody}. Every status resolves; redirects, decompression, proxies from the environment do not exist
 * here. `url` is absolute, `signal` covers the whole call, body included; axios' `timeout` is not read.
 *
 * Rejects with an `OutboundError`.
 */
export function createAxiosAdapter(dispatcher: Dispatcher): AxiosAdapter {
  return (config) =>
    new Promise((resolve, reject) => {
      dispatcher.dispatch(requestOf(config), new Exchange(config, resolve, reject));
    });
}
