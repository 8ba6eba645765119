import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import request from 'supertest';
import { GatewayError } from '../../../src/index.ts';
import { recordingLogger } from '../../support/logger.ts';
import { goodKey, serve } from '../fake-edge.ts';
import { connectRaw } from '../raw-client.ts';

const authorization = `Bearer ${goodKey}`;

describe('authentication at the edge', () => {
  const cases: [name: string, headers: string[], code: string][] = [
    ['no header', [], 'missing_api_key'],
    ['an empty one', ['authorization: '], 'missing_api_key'],
    ['another scheme', ['authorization: Basic dTpw'], 'invalid_authorization'],
    ['two headers', [`authorization: ${authorization}`, `Authorization: ${authorization}`], 'invalid_authorization'],
    ['a wrong key', ['authorization: Bearer wrong-key'], 'invalid_api_key'],
  ];
  for (const [name, lines, code] of cases) {
    it(`answers 401 ${code} to ${name}, whatever the body`, async () => {
      const server = await serve({});
      const client = connectRaw(server.port);
      client.write(
        `POST /v1/webhooks HTTP/1.1\r\nhost: x\r\n${lines.map((line) => `${line}\r\n`).join('')}content-length: 900000000\r\n\r\n`,
      );
      const text = await client.received(/\}\}$/);
      expect(text)
        .to.match(/^HTTP\/1\.1 401 /)
        .and.contain(`"code":"${code}"`);
      expect(text)
        .to.match(/www-authenticate: Bearer\r\n/i)
        .and.match(/x-request-id: req_/i);
      client.socket.destroy();
      await server.close();
    });
  }

  it('says that no key was sent where a host reads other credentials and knows nobody', async () => {
    const server = await serve({ authenticate: () => null });
    const messages = [];
    for (const headers of [{}, { authorization: 'Bearer x' }]) {
      const { status, body } = await request(server.url).get('/v1/webhooks').set(headers);
      expect([status, body.error.code]).to.deep.equal([401, 'invalid_api_key']);
      messages.push(body.error.message);
    }
    expect(messages[0]).to.match(/^No API key was sent/);
    expect(messages[1]).to.match(/^This API key is not known/);
    await server.close();
  });

  it('comes before the body is read', async () => {
    let readable = false;
    const server = await serve({
      authenticate(req) {
        readable = req.readableDidRead;
        return null;
      },
    });
    await request(server.url).post('/v1/webhooks').set({ 'content-type': 'text/plain' }).send('x');
    expect(readable).to.equal(false);
    await server.close();
  });

  it("by a slow function of the host leaves most of a request's time for the database", async () => {
    const waits: (number | undefined)[] = [];
    const server = await serve({
      async authenticate() {
        // the host answers slowly on purpose
        await sleep(1_700);
        return { userId: 'usr_1' };
      },
      withDatabase(work, _maxWait, waited) {
        waits.push(waited);
        return work();
      },
    });
    await request(server.url).get('/v1/webhooks');
    await server.close();
    expect(waits).to.have.length(1);
    expect(waits[0]).to.be.below(1_600);
  });

  it('answers with the GatewayError that the function of the host throws', async () => {
    const server = await serve({
      async authenticate() {
        throw new GatewayError('shutting_down', 'Try again in a moment', { headers: { 'retry-after': '1' } });
      },
    });
    const { status, headers, body } = await request(server.url).get('/v1/models');
    expect([status, headers['retry-after'], body.error.code]).to.deep.equal([503, '1', 'shutting_down']);
    await server.close();
  });

  it('answers 500 when it fails, and no credential of the caller reaches the log or the answer', async () => {
    const logger = recordingLogger();
    const server = await serve({
      logger,
      authenticate(req) {
        throw Object.assign(new Error(`cannot look up ${req.headers.authorization} of ${req.headers.cookie}`), {
          config: { headers: req.headers },
        });
      },
    });
    const { status, body, text } = await request(server.url)
      .get('/v1/models')
      .set({ authorization: 'Bearer canary-secret', cookie: 'sid=canary-cookie' });
    expect([status, body.error.code]).to.deep.equal([500, 'internal_error']);
    expect(text).not.to.contain('canary');
    expect(logger.lines).to.have.length(1);
    expect(JSON.stringify(logger.lines)).to.contain('cannot look up').and.not.contain('canary');
    await server.close();
  });
});
