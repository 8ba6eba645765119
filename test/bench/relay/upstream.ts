import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { listenOn } from '../../support/listen.ts';
import { Pacer } from './pacer.ts';

const content = 'A gateway stands between those who ask and those who answer, and adds nothing but order. '.repeat(8);
const body = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  created: 1767225600,
  model: 'bench-1',
  choices: [{ index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 160, total_tokens: 172 },
});
const answer = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
);
const streamHead = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';

function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** How a stream is written: so many chunks, so far apart (milliseconds). */
export interface Pace {
  readonly chunks: number;
  readonly gap: number;
}

function stream(socket: Socket, { chunks, gap }: Pace, pacer: Pacer): void {
  let left = chunks;
  socket.write(streamHead);
  pacer.every(gap, () => {
    if (socket.destroyed) return false;
    if (left-- > 0) {
      const delta = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench-1","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}],"t":${performance.now()}}\n\n`;
      socket.write(chunk(delta));
      return true;
    }
    socket.write(`${chunk('data: [DONE]\n\n')}0\r\n\r\n`);
    return false;
  });
}

/** The length of the request that starts `bytes`; -1 while it is not complete. */
function requestLength(bytes: Buffer): number {
  const head = bytes.indexOf('\r\n\r\n');
  if (head === -1) return -1;
  const text = bytes.toString('latin1', 0, head);
  const length = head + 4 + Number(/content-length: *(\d+)/i.exec(text)?.[1] ?? 0);
  return bytes.length < length ? -1 : length;
}

/** The least a provider can be: sockets and bytes, so that it costs next to nothing beside what is measured. */
export class BenchUpstream {
  readonly #server: Server;
  readonly #pacer = new Pacer();
  pace: Pace = { chunks: 0, gap: 0 };

  private constructor() {
    this.#server = createServer((socket) => {
      socket.setNoDelay(true);
      socket.on('error', () => {});
      let pending: Buffer[] = [];
      socket.on('data', (data) => {
        pending.push(data);
        const bytes = pending.length === 1 ? data : Buffer.concat(pending);
        if (requestLength(bytes) === -1) {
          pending = [bytes];
          return;
        }
        pending = [];
        if (this.pace.chunks > 0) stream(socket, this.pace, this.#pacer);
        else socket.write(answer);
      });
    });
  }

  static async start(): Promise<BenchUpstream> {
    const upstream = new BenchUpstream();
    await listenOn(upstream.#server);
    return upstream;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
  }
}
