import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Where requests go, and with which key. */
export interface Target {
  readonly port: number;
  readonly key: string;
}

/** One chat request as bytes on the wire. */
export function chatRequest({ key }: Target, body: object): Buffer {
  const text = JSON.stringify(body);
  return Buffer.from(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${key}\r\naccept: application/json\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

/** Milliseconds. */
const maxWait = 30_000;

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay(true);
  // a benchmark ends, whatever a server does
  socket.setTimeout(maxWait, () => socket.destroy());
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  return socket;
}

/**
 * Sends a request and waits for the whole of its answer, which has a length. @returns milliseconds to the first byte
 * @throws when the answer is not 200 or does not come
 */
function exchange(socket: Socket, request: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = performance.now();
    let firstByte = 0;
    let missing = -1;
    const onClose = () => reject(new Error('a connection ended before its answer'));
    const onData = (data: Buffer): void => {
      if (missing === -1) {
        firstByte = performance.now() - sent;
        const head = data.indexOf('\r\n\r\n');
        const text = data.toString('latin1', 0, head);
        if (!text.startsWith('HTTP/1.1 200')) return void reject(new Error(data.toString()));
        missing = head + 4 + Number(/content-length: *(\d+)/i.exec(text)?.[1]);
      }
      missing -= data.length;
      if (missing > 0) return;
      socket.off('data', onData).off('close', onClose);
      resolve(firstByte);
    };
    socket.on('data', onData).once('close', onClose);
    socket.write(request);
  });
}

/** Keeps `connections` busy for so many milliseconds. @returns requests answered, and the times to their first bytes */
export async function saturate(
  target: Target,
  request: Buffer,
  connections: number,
  duration: number,
): Promise<{ count: number; seconds: number; firstBytes: number[] }> {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(target.port)));
  const firstBytes: number[] = [];
  const started = performance.now();
  await Promise.all(
    sockets.map(async (socket) => {
      while (performance.now() - started < duration) firstBytes.push(await exchange(socket, request));
    }),
  );
  const seconds = (performance.now() - started) / 1_000;
  for (const socket of sockets) socket.destroy();
  return { count: firstBytes.length, seconds, firstBytes };
}

/** Sends so many requests at even distances, on one connection that it keeps; resolves when the last is answered. */
export async function steadily(target: Target, request: Buffer, count: number, perSecond: number): Promise<void> {
  const socket = await open(target.port);
  const started = performance.now();
  for (let i = 0; i < count; i += 1) {
    await sleep(Math.max(0, started + (i * 1_000) / perSecond - performance.now()));
    await exchange(socket, request);
  }
  socket.destroy();
}

/** Reads one stream to its `[DONE]`; tells how late each chunk came, in milliseconds. */
async function readStream(target: Target, request: Buffer, onDelay: (delay: number) => void): Promise<void> {
  const socket = await open(target.port);
  await new Promise<void>((resolve, reject) => {
    let rest = '';
    socket.on('data', (data) => {
      const now = performance.now();
      const text = rest + data.toString('latin1');
      for (const [, sent] of text.matchAll(/"t":([\d.]+)\}/g)) onDelay(now - Number(sent));
      if (text.includes('[DONE]')) resolve();
      rest = text.slice(text.lastIndexOf('}') + 1);
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('a stream broke off')));
    socket.write(request);
  });
  socket.destroy();
}

/** Opens streams, spread over a second, and reads them all. @returns how late each chunk came, in milliseconds */
export async function readStreams(target: Target, request: Buffer, streams: number): Promise<number[]> {
  const delays: number[] = [];
  await Promise.all(
    Array.from({ length: streams }, async (_, i) => {
      await new Promise((resolve) => setTimeout(resolve, (i * 1_000) / streams));
      await readStream(target, request, (delay) => delays.push(delay));
    }),
  );
  return delays;
}
