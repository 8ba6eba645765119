import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { now, serve } from './rpc.mjs';

/**
 * A receiver in a process of its own: answers 200, and notes of each event when its first byte came and whether its
 * signature was right. While it is told so, what is below /hang gets no answer; what is below /slow gets it late.
 */
const { secret } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
/** Milliseconds. */
const slowness = 100;
let arrivals = [];
let hanging = false;
let held = [];
const sockets = new Set();
let bytesOfClosed = 0;

const server = createServer((req, res) => {
  const at = now();
  const chunks = [];
  function answer() {
    const body = Buffer.concat(chunks);
    const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    const { id } = JSON.parse(body.toString());
    arrivals.push({ id, path: req.url, at, signed: req.headers['x-service-signature'] === expected });
    res.end();
  }
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    if (hanging && req.url?.startsWith('/hang')) held.push(answer);
    else if (req.url?.startsWith('/slow')) setTimeout(answer, slowness);
    else answer();
  });
});
server.on('connection', (socket) => {
  sockets.add(socket);
  socket.on('close', () => {
    sockets.delete(socket);
    bytesOfClosed += socket.bytesRead;
  });
});
server.keepAliveTimeout = 60_000;
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

serve({
  port: () => server.address().port,
  count: () => arrivals.length,
  /** What has come in so far, heads included. */
  bytes: () => [...sockets].reduce((sum, { bytesRead }) => sum + bytesRead, bytesOfClosed),
  hang() {
    hanging = true;
  },
  answer() {
    hanging = false;
    for (const answer of held) answer();
    held = [];
  },
  take() {
    const taken = arrivals;
    arrivals = [];
    return taken;
  },
});
process.send?.('ready');
