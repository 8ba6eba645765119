import { WebSocket } from 'ws';
import { maxTokens } from './options.ts';

/** What came of a call for its client. */
export interface Answer {
  /** 0 where the connection broke before an answer had come. */
  readonly status: number;
  /** Of an error's body. */
  readonly code?: string;
  /** Of an error's body. */
  readonly message?: string;
  /** Whether the answer came to its end. */
  readonly isWhole: boolean;
}

interface SocketEvent {
  readonly type: string;
  readonly status?: number;
  readonly error?: { readonly code: string; readonly message: string };
}

const broken: Answer = { status: 0, isWhole: false };

/**
 * Opens a WebSocket for one response, and closes it when that has ended.
 * @param url of the worker, without `/v1`. @param id of the call, by which the upstream knows it. @param maxWait milliseconds
 */
export function callOverSocket(url: string, key: string, id: string, maxWait: number): Promise<Answer> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': id };
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses?model=talk`, { headers });
    const end = (answer: Answer): void => {
      clearTimeout(timer);
      resolve(answer);
      socket.close();
    };
    const timer = setTimeout(() => {
      end(broken);
      socket.terminate();
    }, maxWait);
    let hasBegun = false;
    socket.on('error', () => {});
    socket.on('close', () => end(hasBegun ? { status: 200, isWhole: false } : broken));
    socket.on('unexpected-response', async (_request, response) => {
      const status = response.statusCode ?? 0;
      try {
        const { code, message } = JSON.parse(Buffer.concat(await response.toArray()).toString()).error;
        end({ status, code, message, isWhole: true });
      } catch {
        end({ status, isWhole: false });
      }
    });
    socket.on('open', () => {
      const create = { type: 'response.create', model: 'talk', input: 'How much is enough?', user: id, store: false };
      socket.send(JSON.stringify({ ...create, max_output_tokens: maxTokens }));
    });
    socket.on('message', (data) => {
      const { type, status = 500, error } = JSON.parse(data.toString()) as SocketEvent;
      if (type === 'response.created') hasBegun = true;
      if (type === 'response.completed') end({ status: 200, isWhole: true });
      // in the middle of a response the answer has broken off
      if (type === 'error' && hasBegun) end({ status: 200, isWhole: false });
      else if (type === 'error') end({ status, ...error, isWhole: true });
    });
  });
}
