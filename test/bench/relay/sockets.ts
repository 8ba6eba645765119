import { once } from 'node:events';
import { createServer } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';
import { listenOn } from '../../support/listen.ts';
import type { Target } from './load.ts';

/** A piece of sound, as realtime clients send it many times a second: 1 KB. */
const message = JSON.stringify({ type: 'input_audio_buffer.append', audio: 'A'.repeat(1_000) });

/** Starts a provider that sends back what it gets. */
export async function startSocketUpstream(): Promise<{ readonly port: number; readonly close: () => void }> {
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  sockets.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  return { port: await listenOn(server), close: () => server.close() };
}

/** Opens so many WebSockets, one after the other, and sends a message on each. */
export async function openSockets({ port, key }: Target, count: number): Promise<WebSocket[]> {
  const sockets: WebSocket[] = [];
  for (let i = 0; i < count; i += 1) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/realtime?model=bench-1`, {
      headers: { authorization: `Bearer ${key}` },
      perMessageDeflate: false,
    });
    await once(socket, 'open');
    sockets.push(socket);
  }
  await echo(sockets, 1);
  return sockets;
}

/** Sends messages on each socket, each when the one before has come back. @returns how many */
export async function echo(sockets: readonly WebSocket[], each: number): Promise<number> {
  await Promise.all(
    sockets.map(async (socket) => {
      for (let i = 0; i < each; i += 1) {
        const back = once(socket, 'message');
        socket.send(message);
        await back;
      }
    }),
  );
  return sockets.length * each;
}
