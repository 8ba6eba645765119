import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect as connectTo, createServer } from 'node:http2';
import { expect } from 'chai';
import { createFakeEdge } from '../fake-edge.ts';

describe('A request over HTTP/2', () => {
  it('gets to what is behind the router', async () => {
    const router = await createFakeEdge();
    const server = createServer((req, res) =>
      router(req as unknown as IncomingMessage, res as unknown as ServerResponse, () => res.end('host')),
    );
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    );
    const client = connectTo(`http://127.0.0.1:${port}`);
    const stream = client.request({ ':path': '/' });
    let text = '';
    for await (const chunk of stream) text += chunk;
    expect(text).to.equal('host');
    client.close();
    server.close();
  });
});
