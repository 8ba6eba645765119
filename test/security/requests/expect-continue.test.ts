import { createServer, type Server } from 'node:http';
import { expect } from 'chai';
import express from 'express';
import { hardenServer } from '../../../src/index.ts';
import { createFakeEdge, goodKey } from '../../http/fake-edge.ts';
import { connectRaw, head } from '../../http/raw-client.ts';
import { listenOn } from '../../support/listen.ts';

const body = '{"url":"https://example.com","events":["credits.low"],"secret":"12345678"}';
const headers = {
  authorization: `Bearer ${goodKey}`,
  'content-type': 'application/json',
  'content-length': String(body.length),
  expect: '100-continue',
};

describe('Expect: 100-continue', () => {
  let server: Server;
  let port: number;

  before(async () => {
    const edge = await createFakeEdge();
    const app = express()
      .use(edge)
      .post('/host', express.json(), (req, res) => void res.json(req.body));
    server = hardenServer(createServer(app));
    port = await listenOn(server);
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  for (const [what, own, status] of [
    ['without a key', { authorization: '' }, 401],
    ['with a key that nobody has', { authorization: 'Bearer wrong' }, 401],
    ['that is too long', { 'content-length': '300000' }, 413],
    ['of another type', { 'content-type': 'text/plain' }, 415],
    ['of an unknown encoding', { 'content-encoding': 'compress' }, 415],
  ] as const) {
    it(`asks for no body ${what}`, async () => {
      const client = connectRaw(port);
      client.write(head('POST', '/v1/webhooks', { ...headers, ...own }));
      const text = await client.received(/"code":"\w+"/);
      expect(text).to.match(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(text).to.not.contain('100 Continue');
      client.socket.destroy();
    });
  }

  for (const [whose, path, own] of [
    ['the gateway', '/v1/webhooks', {}],
    ['the host', '/host', { authorization: '' }],
  ] as const) {
    it(`is answered when ${whose} reads the body`, async () => {
      const client = connectRaw(port);
      client.write(head('POST', path, { ...headers, ...own }));
      expect(await client.received(/^HTTP\/1\.1 100 Continue\r\n\r\n$/)).to.include('100 Continue');
      client.write(body);
      expect(await client.received(/HTTP\/1\.1 200 OK[\s\S]*12345678/)).to.include('200 OK');
      client.socket.destroy();
    });
  }
});
