import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** A receiver on an event loop of its own, in JavaScript: a thread has no loader. */
const source = `
const { createServer } = require('node:net');
const { parentPort, workerData } = require('node:worker_threads');
const flag = new Int32Array(workerData.shared);
const sockets = new Set();
let requests = 0;
const server = createServer((socket) => {
  sockets.add(socket);
  socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  socket.on('data', () => {
    requests += 1;
    setTimeout(() => socket.write(workerData.answer), workerData.answerAfter);
  });
});
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
parentPort.on('message', (what) => {
  if (what === 'count') return parentPort.postMessage(requests);
  for (const socket of sockets) socket.resetAndDestroy();
  Atomics.store(flag, 0, 1);
  Atomics.notify(flag, 0);
});
`;

/**
 * A receiver of short requests that can do something while the sender's event loop stands still.
 * @param answerAfter milliseconds
 * @param type of the answer's body
 */
export async function startReceiverThread(answerAfter = 0, body = 'ok', type = 'text/plain') {
  const shared = new SharedArrayBuffer(8);
  const flag = new Int32Array(shared);
  const answer = `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const worker = new Worker(source, { eval: true, workerData: { shared, answerAfter, answer } });
  const [port] = await once(worker, 'message');
  return {
    url: `http://127.0.0.1:${port}/hook`,
    /** Resets every connection; returns when they are, without a turn of the event loop. */
    resetAll() {
      worker.postMessage('reset');
      Atomics.wait(flag, 0, 0, 5_000);
    },
    /** Keeps this thread's event loop from turning. @param time milliseconds */
    holdLoop(time: number) {
      Atomics.wait(flag, 1, 0, time);
    },
    /** Requests that have come. */
    async requests(): Promise<number> {
      worker.postMessage('count');
      const [count] = await once(worker, 'message');
      return count;
    },
    async stop() {
      await worker.terminate();
    },
  };
}
