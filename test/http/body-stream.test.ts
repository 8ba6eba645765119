import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { expect } from 'chai';
import { BodyStream } from '../../src/http/body/body-stream.ts';
import { listenOn } from '../support/listen.ts';
import { until } from '../support/until.ts';

describe('The stream of a body', () => {
  it('fails where its client leaves before its reader has taken all that has come', async () => {
    let req: IncomingMessage | undefined;
    let stream: BodyStream | undefined;
    const server = createServer((incoming) => {
      req = incoming;
      stream = new BodyStream(incoming, incoming.headers, { bytes: 1_000_000, time: 30_000 });
      stream.read(0);
    });
    const port = await listenOn(server);
    const client = request({ port, host: '127.0.0.1', method: 'POST' }).on('error', () => {});
    client.end(Buffer.alloc(40_000));
    // the reader takes none, so that what has come waits
    await until(() => req?.complete === true);
    client.destroy();
    const taken = stream as unknown as BodyStream;
    await until(() => taken.closed);
    expect(taken.failure?.message).to.equal('the client left in the middle of the body');
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
});
