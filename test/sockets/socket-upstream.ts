import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type WebSocket, WebSocketServer } from 'ws';
import { listenOn } from '../support/listen.ts';
import { until } from '../support/until.ts';

/** A message as an upstream got it. */
interface ReceivedMessage {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

/** A plain request as an upstream got it. */
export interface HttpRequest extends Pick<IncomingMessage, 'headers'> {
  readonly method: string;
  readonly url: string;
  readonly body: string;
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows the events it asks for
type Event = any;

/** A provider of WebSockets on a loopback port, which answers by a script. */
export class SocketUpstream {
  /** The handshakes that have come. */
  readonly handshakes: IncomingMessage[] = [];
  /** The sockets that were opened. */
  readonly sockets: WebSocket[] = [];
  readonly received: ReceivedMessage[] = [];
  /** Answers a handshake itself, in place of a socket. @default every handshake is taken */
  refuse: ((socket: Duplex) => void) | undefined;
  /** Called with each socket, before anything else. */
  onOpen: (socket: WebSocket) => void = () => {};
  /** What is done with each event that comes in JSON. */
  onEvent: (event: Event, socket: WebSocket) => void = () => {};
  /** The plain requests that have come. */
  readonly requests: HttpRequest[] = [];
  /** Answers a plain request. @default 404 */
  onRequest: (request: HttpRequest, res: ServerResponse) => void = (_request, res) => void res.writeHead(404).end();
  #server = createServer(async (req, res) => {
    const { method = '', url = '', headers } = req;
    const request = { method, url, headers, body: await text(req) };
    this.requests.push(request);
    this.onRequest(request, res);
  });
  #webSockets = new WebSocketServer({ noServer: true, maxPayload: 1024 ** 3 });

  static async start(): Promise<SocketUpstream> {
    const upstream = new SocketUpstream();
    upstream.#server.on('upgrade', (req, socket, head) => upstream.#open(req, socket, head));
    await listenOn(upstream.#server);
    return upstream;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** The latest socket. */
  get socket(): WebSocket {
    const socket = this.sockets.at(-1);
    if (!socket) throw new Error('no socket was opened');
    return socket;
  }

  /** The events that have come, in JSON. */
  get events(): Event[] {
    return this.received.map(({ data }) => eventIn(data)).filter((event) => event !== undefined);
  }

  /** Waits for so many messages in all. */
  async got(count: number): Promise<readonly ReceivedMessage[]> {
    await until(() => this.received.length >= count);
    return this.received;
  }

  /** Forgets what has come, and answers as at first. */
  reset(): void {
    for (const socket of this.sockets) socket.terminate();
    for (const list of [this.handshakes, this.sockets, this.received, this.requests]) list.length = 0;
    this.refuse = undefined;
    this.onOpen = () => {};
    this.onEvent = () => {};
    this.onRequest = (_request, res) => void res.writeHead(404).end();
  }

  async close(): Promise<void> {
    this.reset();
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #open(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.handshakes.push(req);
    if (this.refuse) {
      this.refuse(socket);
      return;
    }
    this.#webSockets.handleUpgrade(req, socket, head, (opened) => {
      this.sockets.push(opened);
      opened.on('error', () => {});
      opened.on('message', (data: Buffer, isBinary) => {
        this.received.push({ data, isBinary });
        const event = eventIn(data);
        if (event) this.onEvent(event, opened);
      });
      this.onOpen(opened);
    });
  }
}

/** The event that a message has, be it text or bytes. */
function eventIn(data: Buffer): Event {
  try {
    return JSON.parse(data.toString());
  } catch {
    return undefined;
  }
}

/** Refuses a handshake with this answer. */
export function answer(status: string, body: string, headers: readonly string[] = []): (socket: Duplex) => void {
  return (socket) =>
    void socket.end(
      [
        `HTTP/1.1 ${status}`,
        `content-length: ${Buffer.byteLength(body)}`,
        'connection: close',
        ...headers,
        '',
        body,
      ].join('\r\n'),
    );
}

/** What OpenAI's realtime API says a response has used. */
export const realtimeUsage = {
  total_tokens: 30,
  input_tokens: 20,
  output_tokens: 10,
  input_token_details: { text_tokens: 20, audio_tokens: 0, cached_tokens: 8 },
  output_token_details: { text_tokens: 10, audio_tokens: 0 },
};

/** Where the events of an answer are sent. */
export type Sender = { send(text: string): void };

let responses = 0;

/** Answers a `response.create` of a realtime session: begins, writes, ends. */
export function respond(socket: Sender, text = 'Tagus', usage: object = realtimeUsage): void {
  responses += 1;
  const id = `resp_rt_${responses}`;
  const send = (event: object) => socket.send(JSON.stringify(event));
  send({ type: 'response.created', event_id: 'e1', response: { id, status: 'in_progress' } });
  send({ type: 'response.output_text.delta', event_id: 'e2', response_id: id, delta: text });
  send({ type: 'response.done', event_id: 'e3', response: { id, status: 'completed', usage } });
}

/** Answers a `response.create` of the Responses API. @returns the id of the response */
export function answerResponse(socket: Sender, model: string, text = 'Tagus'): string {
  responses += 1;
  const id = `resp_ws_${responses}`;
  const output = [{ id: `msg_ws_${responses}`, type: 'message', role: 'assistant', content: [] }];
  const send = (event: object) => socket.send(JSON.stringify(event));
  send({ type: 'response.created', sequence_number: 0, response: { id, status: 'in_progress', model, output: [] } });
  send({ type: 'response.output_text.delta', sequence_number: 1, item_id: output[0]?.id, delta: text });
  const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18, input_tokens_details: { cached_tokens: 2 } };
  const response = { id, status: 'completed', model, output, usage };
  send({ type: 'response.completed', sequence_number: 2, response });
  return id;
}
