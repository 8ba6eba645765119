import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A receiver in a process of its own: answers 200 and tells its parent when each event's first byte came
 * (ms of the machine's monotonic clock, which all processes share) and whether its signature was right.
 */
export interface Arrival {
  readonly id: string;
  readonly path: string;
  readonly at: number;
  readonly signed: boolean;
}

const secret = process.argv[2] ?? '';
let arrivals: Arrival[] = [];

const server = createServer((req, res) => {
  const at = Number(process.hrtime.bigint()) / 1e6;
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    const { id } = JSON.parse(body.toString()) as { id: string };
    arrivals.push({ id, path: req.url ?? '', at, signed: req.headers['x-service-signature'] === expected });
    res.end();
  });
});

setInterval(() => {
  if (arrivals.length === 0) return;
  process.send?.(arrivals);
  arrivals = [];
}, 20);

server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit());
