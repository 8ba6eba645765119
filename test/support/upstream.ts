import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { keepConnections, listenOn } from './listen.ts';
import type { Certificate } from './servers/certificates.ts';
import { until } from './until.ts';
import { untilRead } from './until-read.ts';

/** One request as it reached the upstream. */
export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  /** Resolves when the answer has been closed, finished or not; to whether it was finished. */
  readonly closed: Promise<boolean>;
}

/** What an upstream does with one request. */
export type Script = (res: ServerResponse, request: RecordedRequest) => void | Promise<void>;

/** Answers `body` as JSON, or as it is when it is bytes. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Script {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  return (res) => {
    res
      .writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length, ...headers })
      .end(bytes);
  };
}

/** Answers 200 and the chunks one by one, each flushed, `gap` milliseconds apart; 0 waits for a turn of the event loop. */
export function chunks(parts: Iterable<string | Buffer>, headers: Record<string, string> = {}, gap = 0): Script {
  return async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    for (const part of parts) {
      if (res.destroyed) return;
      res.write(part);
      // the upstream answers slowly on purpose
      await (gap === 0 ? new Promise(setImmediate) : sleep(gap));
    }
    res.end();
  };
}

/** An event stream of these objects, closed by `[DONE]`. */
export function events(objects: readonly unknown[], gap = 0): Script {
  return chunks([...objects.map((object) => `data: ${JSON.stringify(object)}\n\n`), 'data: [DONE]\n\n'], {}, gap);
}

/** Never answers. */
export const hang: Script = () => {};

/** Closes the connection with a TCP reset, after `first` if that is given. */
export function reset(first?: string | Buffer, headers: Record<string, string> = {}): Script {
  return async (res) => {
    if (first !== undefined) {
      res.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      await new Promise((resolve) => res.write(first, resolve));
      // a reset makes the other side forget what it has not read yet
      await untilRead();
    }
    res.socket?.resetAndDestroy();
  };
}

/** Sends `first` and then nothing more. */
export function stall(first: string | Buffer, headers: Record<string, string> = {}, status = 200): Script {
  return (res) => {
    res.writeHead(status, { 'content-type': 'text/event-stream', ...headers });
    res.write(first);
  };
}

/** Writes raw bytes on the socket, HTTP or not, and closes it. */
export function raw(bytes: string | Buffer): Script {
  return (res) => void res.socket?.end(bytes);
}

/** Each call by the next script, the last one again and again. */
export function inTurn(...scripts: Script[]): Script {
  let i = 0;
  return (res, request) => scripts[Math.min(i++, scripts.length - 1)]?.(res, request);
}

/** A scripted OpenAI-compatible provider on a loopback port. */
export class ScriptedUpstream {
  readonly requests: RecordedRequest[] = [];
  /** What is done with the next requests; set it per test. */
  script: Script = json(200, { choices: [{}] });
  /** Connections ever made. */
  connections = 0;
  #sockets = new Set<Socket>();
  readonly #scheme: 'http' | 'https';
  readonly #server: ReturnType<typeof createServer>;

  constructor(certificate?: Certificate) {
    const answer = (req: IncomingMessage, res: ServerResponse) => void this.#answer(req, res);
    this.#scheme = certificate ? 'https' : 'http';
    this.#server = certificate ? createTlsServer(certificate, answer) : createServer(answer);
    keepConnections(this.#server);
  }

  /** @param certificate for an upstream over TLS */
  static async start(certificate?: Certificate): Promise<ScriptedUpstream> {
    const upstream = new ScriptedUpstream(certificate);
    upstream.#server.on('connection', (socket) => {
      upstream.connections += 1;
      upstream.#sockets.add(socket);
      socket.on('close', () => upstream.#sockets.delete(socket));
    });
    await listenOn(upstream.#server);
    return upstream;
  }

  get baseUrl(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** Connections open now. */
  get sockets(): number {
    return this.#sockets.size;
  }

  get last(): RecordedRequest {
    const request = this.requests.at(-1);
    if (!request) throw new Error('the upstream was not called');
    return request;
  }

  /** Waits until `count` requests have come in all. */
  async received(count: number): Promise<RecordedRequest> {
    await until(() => this.requests.length >= count);
    return this.last;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const closed = new Promise<boolean>((resolve) => res.on('close', () => resolve(res.writableFinished)));
    const parts: Buffer[] = [];
    try {
      for await (const part of req) parts.push(part);
    } catch {
      return;
    }
    const request: RecordedRequest = {
      method: req.method ?? '',
      path: req.url ?? '',
      rawHeaders: req.rawHeaders,
      headers: req.headers,
      body: Buffer.concat(parts),
      closed,
    };
    this.requests.push(request);
    await this.script(res, request);
  }
}
