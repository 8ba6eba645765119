import type { IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import express, { type RequestHandler } from 'express';
import express4 from 'express4';
import request from 'supertest';
import { keepRawBody, type ModelGateway } from '../../src/index.ts';
import { recordingLogger } from '../support/logger.ts';
import { createFakeEdge, fakeOperations, goodKey } from './fake-edge.ts';

const bearer = `Bearer ${goodKey}`;
const chat = '{"model":"m", "messages":[{"role":"user","content":"h\\u00e9"}],"seed":9007199254740993}';
const webhook = '{"url":"https://example.com","events":["credits.low"],"secret":"12345678"}';

/** How a host, or the platform in front of it, parses bodies before the gateway sees them. */
const parsers = [
  'no parser',
  'express.json()',
  'express.json({ verify: keepRawBody })',
  'a platform that keeps rawBody',
] as const;
type Parser = (typeof parsers)[number];

interface HostKind {
  readonly framework: typeof express;
  readonly prefix: string;
  readonly parser: Parser;
}

/** As cloud functions do. */
function keepAsPlatform(req: IncomingMessage & { rawBody?: Buffer }, _res: unknown, bytes: Buffer): void {
  req.rawBody = bytes;
}

function parserOf({ framework, parser }: HostKind): RequestHandler[] {
  if (parser === 'no parser') return [];
  if (parser === 'express.json()') return [framework.json()];
  return [framework.json({ verify: parser === 'a platform that keeps rawBody' ? keepAsPlatform : keepRawBody })];
}

/** A host's app with the edge in it, a route of its own behind it that tells what it got, and an error handler. */
function createHost(kind: HostKind, edge: ModelGateway['router'], seen: { errors: unknown[] }): express.Express {
  const app = kind.framework();
  app.use(...([kind.prefix || '/', ...parserOf(kind), edge] as [string, ...RequestHandler[]]));
  app.use(async (req, res) => {
    const chunks: Buffer[] = [];
    if (req.body === undefined || kind.parser === 'no parser') for await (const chunk of req) chunks.push(chunk);
    const body = chunks.length > 0 ? Buffer.concat(chunks).toString() : JSON.stringify(req.body);
    res.status(299).json({ host: true, url: req.url, body, ours: res.getHeader('x-request-id') ?? null });
  });
  app.use(((error, _req, res, _next) => {
    seen.errors.push(error);
    res.status(598).json({ host: 'error handler' });
  }) as express.ErrorRequestHandler);
  return app;
}

/** What holds in every host. */
function hostContract(name: string, kind: HostKind): void {
  describe(`an API inside ${name}`, () => {
    const seen: { errors: unknown[] } = { errors: [] };
    let logger: ReturnType<typeof recordingLogger>;
    let app: express.Express;
    const at = (path: string): string => `${kind.prefix}${path}`;

    before(async () => {
      logger = recordingLogger();
      const broken = {
        async handle(): Promise<never> {
          throw new Error('the database is gone');
        },
      };
      const edge = await createFakeEdge({ logger, operations: fakeOperations({ deleteWebhook: broken }) });
      app = createHost(kind, edge, seen);
    });

    it('gives an operation its query, with numbers as numbers', async () => {
      const { status, body } = await request(app)
        .get(at('/v1/webhooks?limit=5&after=wh_1'))
        .set({ authorization: bearer });
      expect([status, body.query]).to.deep.equal([200, { limit: 5, after: 'wh_1' }]);
    });

    it('gives an operation its path parameters and its body', async () => {
      const { status, body } = await request(app)
        .patch(at('/v1/webhooks/wh%201/'))
        .set({ authorization: bearer, 'content-type': 'application/json; charset=UTF-8' })
        .send('{"active":false}');
      expect([status, body.params, body.body]).to.deep.equal([200, { id: 'wh 1' }, { active: false }]);
    });

    const exact =
      kind.parser === 'express.json()'
        ? 'the body of a relayed call, serialised again'
        : 'the exact bytes of a relayed call';
    it(`gives a relay ${exact}`, async () => {
      const { body } = await request(app)
        .post(at('/v1/chat/completions'))
        .set({ authorization: bearer, 'content-type': 'application/json' })
        .send(chat);
      const expected = kind.parser === 'express.json()' ? JSON.stringify(JSON.parse(chat)) : chat;
      expect(Buffer.from(body.raw, 'base64').toString()).to.equal(expected);
    });

    it('accepts a compressed body', async () => {
      const { status, body } = await request(app)
        .post(at('/v1/webhooks'))
        .set({ authorization: bearer, 'content-type': 'application/json', 'content-encoding': 'gzip' })
        .serialize((bytes) => bytes)
        .send(gzipSync(webhook) as unknown as object);
      expect([status, body.body]).to.deep.equal([200, JSON.parse(webhook)]);
    });

    for (const path of ['/v1/models/meta/llama-3', '/v1/models/meta%2Fllama-3']) {
      it(`reads a model id with a slash from ${path}`, async () => {
        const { body } = await request(app).get(at(path)).set({ authorization: bearer });
        expect(body.params).to.deep.equal({ model: 'meta/llama-3' });
      });
    }

    for (const path of ['/v1/models', '/v1/webhooks']) {
      it(`answers HEAD ${path} as GET, without the body`, async () => {
        const { status, headers, text } = await request(app).head(at(path)).set({ authorization: bearer });
        expect([status, text]).to.deep.equal([200, undefined]);
        expect(headers).to.include({ 'content-type': 'application/json' }).and.to.have.property('x-request-id');
      });
    }

    it("leaves an unknown path to the host, with its body and without a header of the gateway's", async () => {
      const { status, body, headers } = await request(app)
        .post(at('/v1/other?a=b'))
        .set({ 'content-type': 'application/json' })
        .send('{"a":1}');
      expect(status).to.equal(299);
      expect(body).to.deep.equal({ host: true, url: at('/v1/other?a=b'), body: '{"a":1}', ours: null });
      expect(headers).not.to.have.property('x-request-id');
    });

    it('leaves OPTIONS on its own paths to the host', async () => {
      const { status, body } = await request(app).options(at('/v1/webhooks'));
      expect([status, body.ours]).to.deep.equal([299, null]);
    });

    it('refuses a wrong method itself', async () => {
      const { status, headers, body } = await request(app).put(at('/v1/webhooks')).set({ authorization: bearer });
      expect([status, headers.allow, body.error.code]).to.deep.equal([405, 'GET, HEAD, POST', 'method_not_allowed']);
    });

    it('refuses a caller it does not know', async () => {
      const { status, headers, body } = await request(app)
        .get(at('/v1/webhooks'))
        .set({ authorization: 'Bearer nope' });
      expect([status, headers['www-authenticate'], body.error.code]).to.deep.equal([401, 'Bearer', 'invalid_api_key']);
    });

    it('answers its own failure with 500, and logs it', async () => {
      const { status, headers, body, text } = await request(app)
        .delete(at('/v1/webhooks/wh_1'))
        .set({ authorization: bearer });
      expect([status, body.error.code]).to.deep.equal([500, 'internal_error']);
      expect(text).not.to.contain('database').and.not.contain('at ');
      const line = logger.lines.find(({ level }) => level === 'error');
      expect(line?.fields).to.include({ requestId: headers['x-request-id'], error: 'Error: the database is gone' });
    });

    it("never calls the host's error handler", () => {
      expect(seen.errors).to.deep.equal([]);
    });

    const warnings = kind.parser === 'express.json()' ? 1 : 0;
    it(warnings === 1 ? 'warns once that the exact bytes are lost' : 'logs no warning', () => {
      expect(logger.lines.filter(({ level }) => level === 'warn')).to.have.length(warnings);
    });
  });
}

for (const [version, framework] of [
  ['Express 5', express],
  ['Express 4', express4],
] as const) {
  for (const prefix of ['', '/api/llm']) {
    for (const parser of parsers) {
      hostContract(`${version} at ${prefix || '/'} after ${parser}`, { framework, prefix, parser });
    }
  }
}
