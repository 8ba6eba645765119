import { IncomingMessage, ServerResponse } from 'node:http';
import { connect as connectTo, createServer } from 'node:http2';
import { Socket } from 'node:net';
import { expect } from 'chai';
import { shareHiddenClasses } from '../../../src/http/request.ts';
import { createRouter } from '../../../src/http/router.ts';
import { recordingLogger } from '../../support/logger.ts';

describe('A request whose prototype its host has changed', () => {
  function changed() {
    const req = new IncomingMessage(new Socket());
    const res = new ServerResponse(req);
    Object.setPrototypeOf(req, Object.create(IncomingMessage.prototype));
    Object.setPrototypeOf(res, Object.create(ServerResponse.prototype));
    return { req, res };
  }

  it('keeps each of its properties', () => {
    const { req, res } = changed();
    const propertiesOf = (object: object) => Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
    const before = [req, res].map(propertiesOf);
    shareHiddenClasses(req, res);
    for (const [i, object] of [req, res].entries()) {
      const after = propertiesOf(object);
      expect(after.map(([name]) => name)).to.deep.equal(before[i]?.map(([name]) => name));
      for (const [k, [name, value]] of after.entries()) expect(value, name).to.equal(before[i]?.[k]?.[1]);
    }
  });

  it('shows what becomes of it through an object that inherits from it', () => {
    const { req, res } = changed();
    const wrapper = Object.create(req) as IncomingMessage;
    shareHiddenClasses(wrapper, Object.create(res) as ServerResponse);
    req.complete = true;
    expect(wrapper.complete).to.equal(true);
  });
});

describe('A request over HTTP/2', () => {
  it('gets to what is behind the router', async () => {
    const router = createRouter(recordingLogger());
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
