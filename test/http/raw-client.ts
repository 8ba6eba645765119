import { connect, type Socket } from 'node:net';

/** A connection on which requests are written by hand, and what came back on it. */
export interface RawClient {
  readonly socket: Socket;
  write(...parts: (string | Buffer)[]): void;
  /** Resolves when what came back matches; rejects when the connection ends or 5 s pass before that. */
  received(pattern: RegExp): Promise<string>;
  /** Resolves with all that came back, when the server ends the connection. */
  ended(): Promise<string>;
}

export function connectRaw(port: number): RawClient {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  let over = false;
  let check = (): void => {};
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    check();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    over = true;
    check();
  });

  function until(isDone: () => boolean): Promise<string> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`nothing like it came in time: ${text}`)), 5_000);
      check = () => {
        if (!isDone() && !over) return;
        clearTimeout(timer);
        if (isDone()) resolve(text);
        else reject(new Error(`the connection ended: ${text}`));
      };
      check();
    });
  }

  return {
    socket,
    write(...parts) {
      for (const part of parts) socket.write(part);
    },
    received: (pattern) => until(() => pattern.test(text)),
    ended: () => until(() => over),
  };
}

/** The head of a request; the body is the caller's to write. */
export function head(method: string, path: string, headers: Readonly<Record<string, string>> = {}): string {
  const lines = Object.entries({ host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}
