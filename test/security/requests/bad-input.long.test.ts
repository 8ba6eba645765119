import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { type Documented, operations } from '../../support/spec.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import {
  bodySchema,
  deep,
  exampleBody,
  hostileValues,
  isRelayed,
  isRequired,
  replaced,
  stringFields,
  takesJson,
} from './hostile.ts';

const managed = operations.filter((one) => !isRelayed(one));
const relayed = operations.filter(isRelayed);

describe('bad input', () => {
  let live: LiveGateway;
  let upstream: ScriptedUpstream;
  let connection: Connection;
  let id: string;
  let before_: string;

  /** Everything in the database but when keys were last used, as one digest. */
  async function digest(): Promise<string> {
    const hash = createHash('sha256');
    for (const name of ['gateway_webhooks', 'gateway_events', 'gateway_deliveries', 'gateway_jobs', 'gateway_keys']) {
      hash.update(
        JSON.stringify(
          await connection
            .collection(name)
            .find({}, { projection: { lastUsedAt: 0 } })
            .sort({ _id: 1 })
            .toArray(),
        ),
      );
    }
    return hash.digest('hex');
  }

  async function send(one: Documented, body: string | Buffer | undefined, headers = {}, path = one.path) {
    const response = await fetch(live.url + path.replace('{id}', id).replace('{model}', 'm'), {
      method: one.method.toUpperCase(),
      headers: {
        authorization: `Bearer ${live.key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: body as string }),
    });
    const text = await response.text();
    return { status: response.status, text, error: JSON.parse(text).error };
  }

  before(async () => {
    upstream = await ScriptedUpstream.start();
    let ids = 0;
    // what is made has an id of its own
    upstream.script = (res, request) => {
      ids += 1;
      const secret = { value: `ek_${ids}`, expires_at: Math.floor(Date.now() / 1_000) + 3_600 };
      res.setHeader('location', `/v1/realtime/calls/rtc_${ids}`);
      return json(200, {
        ok: true,
        choices: [{}],
        data: [{}],
        results: [{}],
        input_tokens: 1,
        text: '',
        id: `any_${ids}`,
        ...secret,
        client_secret: secret,
      })(res, request);
    };
    connection = await mongoose.createConnection(freshUri()).asPromise();
    live = await startGateway({
      mongo: connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl, apiKey: 'sk-up' }],
      limits: { writesPerMinute: 100_000, readsPerMinute: 100_000 },
    });
    const webhook = { url: 'https://example.com/', events: ['credits.low'], secret: 'long-enough' };
    ({ id } = (await live.call('POST', '/v1/webhooks', webhook)).body);
    before_ = await digest();
  });
  after(async () => {
    await live.close();
    await upstream.close();
    await connection.dropDatabase();
    await connection.close();
  });
  afterEach('stores nothing and pollutes nothing', async () => {
    expect(await digest()).to.equal(before_);
    expect(({} as { polluted?: unknown }).polluted).to.equal(undefined);
  });

  for (const one of managed.filter(takesJson)) {
    const { operation } = one;
    const body = exampleBody(operation);
    const fields = stringFields(bodySchema(operation), body);

    describe(`in the body of ${operation.operationId}`, () => {
      for (const path of fields) {
        for (const [what, value, codes] of hostileValues) {
          if (value === null && !isRequired(bodySchema(operation), path)) continue;
          it(`is refused: ${what} in ${path.join('.')}`, async () => {
            const { status, error } = await send(one, JSON.stringify(replaced(body, path, value)));
            expect(status).to.equal(400);
            expect(error.code).to.be.oneOf([...codes]);
            expect(error.param).to.match(/^\w/);
          });
        }
      }

      for (const name of Object.keys(body)) {
        it(`is refused: an operator for ${name}`, async () => {
          const { error } = await send(one, JSON.stringify({ ...body, [name]: { $gt: 0 } }));
          // an event's data is an object of its own, which its type judges
          if (error.code === 'invalid_event_data') expect(error.param).to.match(/^data/);
          // their keys are the account's own
          else if (['metadata', 'filters'].includes(name)) {
            expect(error).to.include({ code: 'invalid_type', param: `${name}.$gt` });
          } else expect(error).to.include({ code: 'invalid_type', param: name });
        });

        it(`is refused: ${name} twice, however it is escaped`, async () => {
          const escaped = `\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}${name.slice(1)}`;
          const text = `${JSON.stringify(body).slice(0, -1)},"${escaped}":null}`;
          const { status, error } = await send(one, text);
          expect(status).to.equal(400);
          expect(error).to.include({ code: 'duplicate_parameter', param: name });
        });

        it(`is refused: ${name} nested too deep to be stored`, async () => {
          const text = JSON.stringify({ ...body, [name]: 'nested' }).replace('"nested"', deep(150));
          const { status, error } = await send(one, text);
          expect([status, error.code]).to.deep.equal([400, 'invalid_json']);
        });
      }

      for (const name of ['$where', '$set', '__proto__', 'constructor', 'userId', 'user_id', '_id', 'id', 'active.x']) {
        if (name in body) continue;
        it(`is refused: a field called ${name}`, async () => {
          const text = `${JSON.stringify(body).slice(0, -1)},${JSON.stringify(name)}:{"x":1}}`;
          const { status, error } = await send(one, text);
          expect([status, error.code]).to.deep.equal([400, 'unknown_parameter']);
        });
      }

      for (const [what, bytes, status, code, headers] of [
        ['200,000 levels', deep(200_000), 413, 'request_too_large', {}],
        ['20,000 levels', deep(20_000), 400, 'invalid_json', {}],
        ['more than 256 KiB', JSON.stringify({ ...body, secret: 'x'.repeat(262_144) }), 413, 'request_too_large', {}],
        [
          'a gzip bomb',
          gzipSync(Buffer.alloc(50_000_000, ' ')),
          413,
          'request_too_large',
          { 'content-encoding': 'gzip' },
        ],
        ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400, 'invalid_encoding', {}],
        ['UTF-16', Buffer.from(JSON.stringify(body), 'utf16le'), 400, 'invalid_json', {}],
        ['an array', JSON.stringify([body]), 400, 'invalid_type', {}],
        [
          'a form',
          'url[$ne]=1',
          415,
          'unsupported_media_type',
          { 'content-type': 'application/x-www-form-urlencoded' },
        ],
      ] as const) {
        it(`is refused: ${what}`, async () => {
          const answer = await send(one, bytes as string, headers);
          expect([answer.status, answer.error.code]).to.deep.equal([status, code]);
        });
      }
    });
  }

  for (const one of managed.filter(({ path }) => path.includes('{id}'))) {
    const body = one.operation.requestBody && JSON.stringify(exampleBody(one.operation));
    describe(`in the path of ${one.operation.operationId}`, () => {
      for (const [bad, status] of [
        ['%00', 404],
        ['wh_%00', 404],
        ['%7B%22%24ne%22%3Anull%7D', 404],
        ['[$ne]', 404],
        ['$where', 404],
        ['__proto__', 404],
        ['constructor', 404],
        ['..%2F..%2Fadmin', 404],
        [`wh_${'a'.repeat(8_000)}`, 404],
        ['%ED%A0%80', 400],
        ['%ff', 400],
        ['%', 400],
      ] as const) {
        it(`is answered ${status}: ${bad.slice(0, 30)}`, async () => {
          const answer = await send(one, body, {}, one.path.replace('{id}', bad));
          expect(answer.status).to.equal(status);
          expect(answer.error.code).to.match(
            status === 404 ? /^(webhook|api_key|event|delivery)_not_found$/ : /^invalid_value$/,
          );
        });
      }
    });
  }

  for (const one of managed) {
    const body = one.operation.requestBody && JSON.stringify(exampleBody(one.operation));
    describe(`in the query of ${one.operation.operationId}`, () => {
      for (const name of [
        '$where',
        'after[$ne]',
        'limit[$gt]',
        '__proto__',
        'constructor',
        'user_id',
        'x%00',
        '%ED%A0%80',
      ]) {
        if (one.operation.parameters?.some((parameter) => parameter.name === name)) continue;
        it(`is refused: ${name}`, async () => {
          const { status, error } = await send(one, body, {}, `${one.path}?${name}=1`);
          expect(status).to.equal(400);
          expect(error.code).to.be.oneOf(['unknown_parameter', 'invalid_type']);
        });
      }
      for (const [name, value, code] of [
        ['limit', '{"$gt":0}', 'invalid_type'],
        ['limit', '1%00', 'invalid_type'],
        ['limit', '1e1000', 'invalid_type'],
        ['limit', '', 'invalid_type'],
        ['after', '{"$ne":null}', 'invalid_value'],
        ['after', 'wh_%00', 'invalid_value'],
        ['after', '__proto__', 'invalid_value'],
        ['after', '%ED%A0%80', 'invalid_value'],
        ['after', 'a'.repeat(101), 'invalid_value'],
      ] as const) {
        if (!one.operation.parameters?.some((parameter) => parameter.name === name)) continue;
        // a user id may be any text
        if (name === 'after' && one.operation.operationId === 'listAccounts') continue;
        it(`is refused: ${name}=${value.slice(0, 30)}`, async () => {
          const { status, error } = await send(one, body, {}, `${one.path}?${name}=${value}`);
          expect(status).to.equal(400);
          expect(error).to.include({ param: name });
          expect(error.code).to.be.oneOf([code, 'invalid_value']);
        });
      }
      it('is refused: a parameter twice', async () => {
        const { error } = await send(one, body, {}, `${one.path}?limit=1&limit=2`);
        expect(error.code).to.equal('duplicate_parameter');
      });
    });
  }

  for (const one of relayed.filter(takesJson)) {
    const body = exampleBody(one.operation);
    describe(`in the body of ${one.operation.operationId}, which is relayed and never stored`, () => {
      for (const path of stringFields(bodySchema(one.operation), { ...body, stream: undefined })) {
        for (const [what, value] of hostileValues) {
          it(`is refused, or reaches the upstream unchanged: ${what} in ${path.join('.')}`, async () => {
            const text = JSON.stringify(replaced({ ...body, stream: false, stream_options: undefined }, path, value));
            const already = upstream.requests.length;
            const { status } = await send(one, text);
            expect(status).to.be.oneOf([200, 400, 404]);
            if (status === 200) expect(upstream.requests.at(already)?.body.toString()).to.equal(text);
            else expect(upstream.requests).to.have.length(already);
          });
        }
      }
    });
  }
});
