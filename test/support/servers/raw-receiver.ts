import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { listenOn } from '../listen.ts';
import { untilRead } from '../until-read.ts';
import type { Certificate } from './certificates.ts';

/** What is done with one connection, byte by byte. */
export type Play = (socket: Socket) => void | Promise<void>;

function isWhole(bytes: Buffer): boolean {
  const head = bytes.indexOf('\r\n\r\n');
  const length = Number(/content-length: (\d+)/i.exec(bytes.toString('latin1', 0, head))?.[1] ?? 0);
  return head >= 0 && bytes.length >= head + 4 + length;
}

/** Resolves when a whole request, of which the head names the length, has come. */
export function request(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    socket.on('data', function collect(chunk: Buffer) {
      bytes = Buffer.concat([bytes, chunk]);
      if (!isWhole(bytes)) return;
      socket.off('data', collect);
      resolve(bytes);
    });
  });
}

/** Waits for a request, then writes these bytes and leaves the connection as it is. */
export const after =
  (...parts: (string | Buffer)[]): Play =>
  async (socket) => {
    await request(socket);
    for (const part of parts) socket.write(part);
  };

/** Waits for a request, then writes these bytes and closes. */
export const closingAfter =
  (...parts: (string | Buffer)[]): Play =>
  async (socket) => {
    await after(...parts)(socket);
    socket.end();
  };

/** Waits for a request, writes these bytes, and resets the connection once they have left. */
export const resettingAfter =
  (first: string): Play =>
  async (socket) => {
    await request(socket);
    if (first !== '') await new Promise((resolve) => socket.write(first, resolve));
    // a reset makes the other side forget what it has not read yet
    await untilRead();
    socket.resetAndDestroy();
  };

/** Waits for a request, writes `first`, and then `again` for as long as anyone listens, `gap` milliseconds apart; 0 writes as fast as it is taken. */
export const endlessly =
  (first: string, again: string | Buffer, gap = 0): Play =>
  async (socket) => {
    await request(socket);
    socket.write(first);
    while (!socket.destroyed) {
      const taken = socket.write(again);
      if (gap > 0) await new Promise((resolve) => setTimeout(resolve, gap));
      else if (!taken) await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
    }
  };

/** A receiver without an HTTP server: it plays with the bare TCP or TLS connection. */
export async function startRawReceiver(play: Play, certificate?: Certificate) {
  const sockets = new Set<Socket>();
  const current = { play, connections: 0, stopped: false };
  const onSocket = async (socket: Socket) => {
    // a connection that the sender has dropped ends the play wherever it is
    await Promise.resolve(current.play(socket)).catch(() => {});
  };
  const server: Server = certificate ? createTlsServer(certificate, onSocket) : createServer(onSocket);
  server.on('connection', (socket: Socket) => {
    current.connections += 1;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    if (current.stopped) socket.destroy();
  });
  server.on('secureConnection', (socket: Socket) => socket.on('error', () => {}));
  const port = await listenOn(server);
  return {
    port,
    /** Connections that were ever made. */
    get connections() {
      return current.connections;
    },
    /** Connections that are open now. */
    get open() {
      return sockets.size;
    },
    /** Resets every connection, also those with TLS. */
    resetAll() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    plays(next: Play) {
      current.play = next;
    },
    async stop() {
      current.stopped = true;
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
