import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import request, { type Test } from 'supertest';
import { type LiveGateway, startGateway } from '../support/gateway.ts';

/** What is sent, beside a good key: text and bytes as they are, anything else as JSON. */
interface Sent {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

/** What, method and path, what is sent, status, `error.code`, `error.param`. */
type Row = [what: string, target: string, sent: Sent, status: number, code: string, param?: string];

const good = { url: 'https://example.com/hook', events: ['credits.low'], secret: 'long-enough' };
const chat = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
const unknownId = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';

const create = (patch: object): Sent => ({ body: { ...good, ...patch } });
const raw = (body: string | Buffer): Sent => ({ body });
const nested = (depth: number): string => `{"url":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

const webhooks = 'POST /v1/webhooks';
const chats = 'POST /v1/chat/completions';
const patched = `PATCH /v1/webhooks/${unknownId}`;
const rotated = `POST /v1/webhooks/${unknownId}/rotate_secret`;

const credentials: Row[] = [
  ['an empty Authorization', 'GET /v1/webhooks', { headers: { authorization: '' } }, 401, 'missing_api_key'],
  ['a scheme without a key', 'GET /v1/webhooks', { headers: { authorization: 'Bearer' } }, 401, 'missing_api_key'],
  ['another scheme', 'GET /v1/models', { headers: { authorization: 'Basic dTpw' } }, 401, 'invalid_authorization'],
  ['a bare key', 'GET /v1/models', { headers: { authorization: 'sk-1' } }, 401, 'invalid_authorization'],
  ['two keys in one', 'GET /v1/models', { headers: { authorization: 'Bearer a b' } }, 401, 'invalid_authorization'],
  [
    'two headers',
    webhooks,
    { ...create({}), headers: { authorization: ['Bearer a', 'Bearer a'] } },
    401,
    'invalid_authorization',
  ],
  ['an unknown key', chats, { body: chat, headers: { authorization: 'Bearer nobody' } }, 401, 'invalid_api_key'],
  [
    'a key of the right form',
    'GET /v1/models',
    { headers: { authorization: `Bearer key_${'0'.repeat(26)}_x` } },
    401,
    'invalid_api_key',
  ],
  [
    'a key with a % in it',
    'GET /v1/models',
    { headers: { authorization: 'Bearer %00' } },
    401,
    'invalid_authorization',
  ],
  ['no key and no JSON', webhooks, { body: '{', headers: { authorization: 'Bearer x' } }, 401, 'invalid_api_key'],
];

const methods: Row[] = [
  ['GET of a POST', 'GET /v1/chat/completions', {}, 405, 'method_not_allowed'],
  ['PUT', 'PUT /v1/webhooks', create({}), 405, 'method_not_allowed'],
  ['PATCH of the list', 'PATCH /v1/webhooks', { body: {} }, 405, 'method_not_allowed'],
  ['DELETE of the list', 'DELETE /v1/webhooks', {}, 405, 'method_not_allowed'],
  ['POST to a webhook', `POST /v1/webhooks/${unknownId}`, { body: {} }, 405, 'method_not_allowed'],
  ['POST to the models', 'POST /v1/models', { body: {} }, 405, 'method_not_allowed'],
  ['DELETE of a model', 'DELETE /v1/models/a/b', {}, 405, 'method_not_allowed'],
  ['GET of the rotation', `GET /v1/webhooks/${unknownId}/rotate_secret`, {}, 405, 'method_not_allowed'],
];

const json: Row[] = [
  ['no body', webhooks, {}, 400, 'missing_required_parameter'],
  [
    'no body, with a type',
    chats,
    { headers: { 'content-type': 'application/json' } },
    400,
    'missing_required_parameter',
  ],
  ['blanks', webhooks, raw(' \n '), 400, 'invalid_json'],
  ['a word', webhooks, raw('hello'), 400, 'invalid_json'],
  ['an object that breaks off', webhooks, raw('{"url":"https://example.com"'), 400, 'invalid_json'],
  ['a comma too many', chats, raw('{"model":"m",}'), 400, 'invalid_json'],
  ['single quotes', webhooks, raw("{'url':'x'}"), 400, 'invalid_json'],
  ['NaN', chats, raw('{"model":NaN}'), 400, 'invalid_json'],
  ['two values', webhooks, raw('{}{}'), 400, 'invalid_json'],
  ['a byte order mark', webhooks, raw('\u{feff}{}'), 400, 'invalid_json'],
  ['a bare control character', webhooks, raw('{"url":"a\u0001"}'), 400, 'invalid_json'],
  ['101 levels', webhooks, raw(nested(101)), 400, 'invalid_json'],
  ['20,000 levels', chats, raw(nested(20_000)), 400, 'invalid_json'],
  ['Latin-1', webhooks, raw(Buffer.from('{"url":"\xe9"}', 'latin1')), 400, 'invalid_encoding'],
  ['UTF-16', chats, raw(Buffer.from('{}', 'utf16le')), 400, 'invalid_json'],
  ['an array', webhooks, raw('[]'), 400, 'invalid_type'],
  ['a string', webhooks, raw('"x"'), 400, 'invalid_type'],
  ['null', chats, raw('null'), 400, 'invalid_type'],
  ['a key twice', webhooks, raw('{"url":"a","events":[],"url":"b"}'), 400, 'duplicate_parameter', 'url'],
  [
    'a key twice, once escaped',
    webhooks,
    raw('{"secret":"a","\\u0073ecret":"b"}'),
    400,
    'duplicate_parameter',
    'secret',
  ],
  [
    'a key twice in a relayed body',
    chats,
    raw('{"model":"a","messages":[{"role":"user"}],"model":"b"}'),
    400,
    'duplicate_parameter',
    'model',
  ],
  ['__proto__', webhooks, raw('{"__proto__":{"url":"x"}}'), 400, 'unknown_parameter', '__proto__'],
  ['constructor', patched, raw('{"constructor":{}}'), 400, 'unknown_parameter', 'constructor'],
];

const sizesAndTypes: Row[] = [
  ['a body of 256 KiB and a byte', webhooks, raw(`{}${' '.repeat(256 * 1024 - 1)}`), 413, 'request_too_large'],
  ['a model call over its limit', chats, raw(`{}${' '.repeat(300_000)}`), 413, 'request_too_large'],
  [
    'a bomb',
    webhooks,
    { body: gzipSync(Buffer.alloc(10_000_000)), headers: { 'content-encoding': 'gzip' } },
    413,
    'request_too_large',
  ],
  [
    'an unknown compression',
    webhooks,
    { body: '{}', headers: { 'content-encoding': 'zstd' } },
    415,
    'unsupported_media_type',
  ],
  ['what is no gzip', webhooks, { body: '{}', headers: { 'content-encoding': 'gzip' } }, 400, 'invalid_encoding'],
  [
    'a form',
    webhooks,
    { body: 'url=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'unsupported_media_type',
  ],
  ['plain text', chats, { body: '{}', headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
  [
    'an upload',
    chats,
    { body: '--x--', headers: { 'content-type': 'multipart/form-data; boundary=x' } },
    415,
    'unsupported_media_type',
  ],
  [
    'a type that only begins as JSON',
    webhooks,
    { body: '{}', headers: { 'content-type': 'application/json5' } },
    415,
    'unsupported_media_type',
  ],
  [
    'another charset',
    webhooks,
    { body: '{}', headers: { 'content-type': 'application/json; charset=utf-16' } },
    415,
    'unsupported_media_type',
  ],
  ['no type', patched, { body: '{}', headers: { 'content-type': '' } }, 415, 'unsupported_media_type'],
];

const fields: Row[] = [
  ['no field', webhooks, { body: {} }, 400, 'missing_required_parameter', 'url'],
  ['no url', webhooks, create({ url: undefined }), 400, 'missing_required_parameter', 'url'],
  ['no events', webhooks, create({ events: undefined }), 400, 'missing_required_parameter', 'events'],
  ['no secret', webhooks, create({ secret: undefined }), 400, 'missing_required_parameter', 'secret'],
  ['a field too many', webhooks, create({ active: false }), 400, 'unknown_parameter', 'active'],
  ['a misspelt field', webhooks, create({ event: [] }), 400, 'unknown_parameter', 'event'],
  ['a number as url', webhooks, create({ url: 1 }), 400, 'invalid_type', 'url'],
  ['null as url', webhooks, create({ url: null }), 400, 'invalid_type', 'url'],
  ['an operator as url', webhooks, create({ url: { $gt: '' } }), 400, 'invalid_type', 'url'],
  ['a string as events', webhooks, create({ events: 'credits.low' }), 400, 'invalid_type', 'events'],
  ['an object as events', webhooks, create({ events: { 0: 'credits.low' } }), 400, 'invalid_type', 'events'],
  ['no event', webhooks, create({ events: [] }), 400, 'invalid_value', 'events'],
  [
    'an unknown event',
    webhooks,
    create({ events: ['credits.low', 'credits.high'] }),
    400,
    'invalid_value',
    'events[1]',
  ],
  ['an event in capitals', webhooks, create({ events: ['Credits.Low'] }), 400, 'invalid_value', 'events[0]'],
  ['a wildcard', webhooks, create({ events: ['*'] }), 400, 'invalid_value', 'events[0]'],
  ['a number among the events', webhooks, create({ events: [7] }), 400, 'invalid_type', 'events[0]'],
  [
    'an event twice',
    webhooks,
    create({ events: ['credits.low', 'payment.failed', 'credits.low'] }),
    400,
    'invalid_value',
    'events[2]',
  ],
  ['a secret of 7 characters', webhooks, create({ secret: '1234567' }), 400, 'invalid_value', 'secret'],
  ['a secret of 257 characters', webhooks, create({ secret: 'x'.repeat(257) }), 400, 'invalid_value', 'secret'],
  ['a number as secret', webhooks, create({ secret: 12345678 }), 400, 'invalid_type', 'secret'],
  ['a secret with a NUL', webhooks, create({ secret: 'long\0enough' }), 400, 'invalid_value', 'secret'],
  ['half a surrogate pair', webhooks, create({ secret: 'long-enough\ud83d' }), 400, 'invalid_encoding', 'secret'],
];

const urls: Row[] = [
  ['nothing', '', 'invalid_value'],
  ['a path', '/hook', 'invalid_value'],
  ['a host', 'example.com', 'invalid_value'],
  ['no host', 'https://', 'invalid_value'],
  ['a space', 'https://example.com/a b', 'invalid_value'],
  ['a line break', 'https://example.com/\nx', 'invalid_value'],
  ['a backslash', 'https:\\\\example.com', 'invalid_value'],
  ['a port that is none', 'https://example.com:99999', 'invalid_value'],
  ['a user', 'https://user@example.com', 'invalid_value'],
  ['a password', 'https://user:pass@example.com', 'invalid_value'],
  ['a fragment', 'https://example.com/#x', 'invalid_value'],
  ['2,049 characters', `https://example.com/${'x'.repeat(2029)}`, 'invalid_value'],
  ['http', 'http://example.com', 'url_not_allowed'],
  ['ftp', 'ftp://example.com', 'url_not_allowed'],
  ['a file', 'file://example.com/etc/passwd', 'url_not_allowed'],
  ['loopback', 'https://127.0.0.1', 'url_not_allowed'],
  ['localhost', 'https://localhost', 'url_not_allowed'],
  ['a name below localhost', 'https://a.localhost', 'url_not_allowed'],
  ['loopback as one number', 'https://2130706433', 'url_not_allowed'],
  ['loopback in hexadecimal', 'https://0x7f.1', 'url_not_allowed'],
  ['IPv6 loopback', 'https://[::1]', 'url_not_allowed'],
  ['IPv4 in IPv6', 'https://[::ffff:127.0.0.1]', 'url_not_allowed'],
  ['the metadata service', 'https://169.254.169.254', 'url_not_allowed'],
  ['a private network', 'https://10.0.0.1', 'url_not_allowed'],
].map(([what, url, code]) => [`the url ${what}`, webhooks, create({ url }), 400, code as string, 'url']);

const patches: Row[] = [
  ['nothing to change', patched, { body: {} }, 400, 'missing_required_parameter'],
  ['a url', patched, { body: { url: 'https://example.com' } }, 400, 'unknown_parameter', 'url'],
  ['a secret', patched, { body: { active: true, secret: 'long-enough' } }, 400, 'unknown_parameter', 'secret'],
  ['a word as active', patched, { body: { active: 'true' } }, 400, 'invalid_type', 'active'],
  ['a number as active', patched, { body: { active: 1 } }, 400, 'invalid_type', 'active'],
  ['null as active', patched, { body: { active: null } }, 400, 'invalid_type', 'active'],
  ['no event', patched, { body: { events: [] } }, 400, 'invalid_value', 'events'],
  ['an unknown event', patched, { body: { events: ['x'] } }, 400, 'invalid_value', 'events[0]'],
  [
    'an overlap that is no whole number',
    rotated,
    { body: { secret: 'long-enough', overlap_seconds: 1.5 } },
    400,
    'invalid_type',
    'overlap_seconds',
  ],
  [
    'an overlap beyond 7 days',
    rotated,
    { body: { secret: 'long-enough', overlap_seconds: 604_801 } },
    400,
    'invalid_value',
    'overlap_seconds',
  ],
  ['a rotation to no secret', rotated, { body: {} }, 400, 'missing_required_parameter', 'secret'],
];

const ids: Row[] = [
  ['an unknown id', patched, { body: { active: true } }, 404, 'webhook_not_found', 'id'],
  ['an unknown id to delete', `DELETE /v1/webhooks/${unknownId}`, {}, 404, 'webhook_not_found', 'id'],
  ['an unknown id to rotate', rotated, { body: { secret: 'long-enough' } }, 404, 'webhook_not_found', 'id'],
  ['an id of another kind', 'DELETE /v1/webhooks/evt_1', {}, 404, 'webhook_not_found', 'id'],
  ['an id with a slash', 'DELETE /v1/webhooks/wh_1%2F..', {}, 404, 'webhook_not_found', 'id'],
  ['an id with a NUL', 'DELETE /v1/webhooks/wh_%00', {}, 404, 'webhook_not_found', 'id'],
  ['an id of 4,000 characters', `DELETE /v1/webhooks/${'x'.repeat(4000)}`, {}, 404, 'webhook_not_found', 'id'],
  ['an operator as id', 'DELETE /v1/webhooks/%7B%22%24ne%22:1%7D', {}, 404, 'webhook_not_found', 'id'],
  ['a % that encodes nothing', 'DELETE /v1/webhooks/%zz', {}, 400, 'invalid_value', 'id'],
  ['half a character', 'GET /v1/models/%C3', {}, 400, 'invalid_value', 'model'],
  ['an unknown model', 'GET /v1/models/no/such', {}, 404, 'model_not_found', 'model'],
  ['an unknown model to chat with', chats, { body: chat }, 404, 'model_not_found', 'model'],
];

const queries: Row[] = [
  ['an unknown parameter', '?page=1', 'unknown_parameter', 'page'],
  ['__proto__', '?__proto__=1', 'unknown_parameter', '__proto__'],
  ['limit 0', '?limit=0', 'invalid_value', 'limit'],
  ['limit 101', '?limit=101', 'invalid_value', 'limit'],
  ['limit -1', '?limit=-1', 'invalid_value', 'limit'],
  ['limit 1.5', '?limit=1.5', 'invalid_type', 'limit'],
  ['limit ten', '?limit=ten', 'invalid_type', 'limit'],
  ['an empty limit', '?limit=', 'invalid_value', 'limit'],
  ['two limits', '?limit=1&limit=2', 'duplicate_parameter', 'limit'],
  ['a list of limits', '?limit[]=1', 'unknown_parameter', 'limit[]'],
  ['an operator', '?after[$gt]=', 'unknown_parameter', 'after[$gt]'],
  ['an empty after', '?after=', 'invalid_value', 'after'],
  ['an after that is no id', '?after=x', 'invalid_value', 'after'],
].map(([what, query, code, param]) => [what, `GET /v1/webhooks${query}`, {}, 400, code, param] as Row);

const models: Row[] = [
  ['no model', chats, { body: { messages: chat.messages } }, 400, 'missing_required_parameter', 'model'],
  ['no messages', chats, { body: { model: 'm' } }, 400, 'missing_required_parameter', 'messages'],
  ['an empty model', chats, { body: { ...chat, model: '' } }, 400, 'invalid_value', 'model'],
  ['a number as model', chats, { body: { ...chat, model: 5 } }, 400, 'invalid_type', 'model'],
  ['a string as messages', chats, { body: { ...chat, messages: 'hi' } }, 400, 'invalid_type', 'messages'],
  ['an empty conversation', chats, { body: { ...chat, messages: [] } }, 400, 'invalid_value', 'messages'],
  [
    'a message without a role',
    chats,
    { body: { ...chat, messages: [{ content: 'x' }] } },
    400,
    'missing_required_parameter',
    'messages[0].role',
  ],
  [
    'a number as content',
    chats,
    { body: { ...chat, messages: [...chat.messages, { role: 'user', content: 1 }] } },
    400,
    'invalid_type',
    'messages[1].content',
  ],
  ['a word as stream', chats, { body: { ...chat, stream: 'yes' } }, 400, 'invalid_type', 'stream'],
  ['no input', 'POST /v1/embeddings', { body: { model: 'm' } }, 400, 'missing_required_parameter', 'input'],
  ['an object as input', 'POST /v1/embeddings', { body: { model: 'm', input: {} } }, 400, 'invalid_type', 'input'],
  ['no prompt', 'POST /v1/images/generations', { body: { model: 'm' } }, 400, 'missing_required_parameter', 'prompt'],
];

describe('bad input', () => {
  let live: LiveGateway;

  before(async () => {
    live = await startGateway({
      allowHttp: false,
      allowPrivateNetworks: [],
      modelBodyLimit: 300_000,
      managementRateLimit: 100_000,
    });
  });
  after(() => live.close());

  function send(target: string, { body, headers }: Sent): Test {
    const [method = '', path = ''] = target.split(' ');
    const call = request(live.url)[method.toLowerCase() as 'get'](path).set('authorization', `Bearer ${live.key}`);
    const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    if (bytes !== undefined)
      call
        .set('content-type', 'application/json')
        .serialize((sent) => sent)
        .send(bytes as never);
    return call.set({ ...headers } as Record<string, string>);
  }

  for (const [group, rows] of Object.entries({
    credentials,
    methods,
    json,
    'sizes and types': sizesAndTypes,
    'fields of a webhook': fields,
    'urls of a webhook': urls,
    'changes of a webhook': patches,
    ids,
    queries,
    'model calls': models,
  })) {
    describe(group, () => {
      for (const [what, target, sent, status, code, param = null] of rows) {
        it(`${target.slice(0, 60)} with ${what} is ${status} ${code}${param === null ? '' : ` of ${param}`}`, async () => {
          const answer = await send(target, sent);
          const { error } = answer.body;
          expect({ status: answer.status, code: error.code, param: error.param }).to.deep.equal({
            status,
            code,
            param,
          });
          expect(answer.body).to.have.all.keys('error');
          expect(error).to.have.all.keys('message', 'type', 'param', 'code');
          expect(error.message)
            .to.match(/^\S.*\S$/s)
            .and.not.match(/must NOT|openapi|ajv|\/body|instancePath|undefined/);
          expect(answer.headers['content-type']).to.equal('application/json');
          expect(answer.headers).to.have.property('x-request-id');
        });
      }
    });
  }

  it("treats another account's webhook like an unknown one", async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_2' });
    const created = await send(webhooks, { body: good, headers: { authorization: `Bearer ${key}` } });
    expect(created.status).to.equal(201);
    for (const [method, body] of [
      ['PATCH', { active: false }],
      ['DELETE', undefined],
      ['GET', undefined],
    ] as const) {
      const { status, body: answer } = await send(`${method} /v1/webhooks/${created.body.id}`, { body });
      expect([status, answer.error.code]).to.deep.equal([404, 'webhook_not_found']);
    }
  });

  it('has stored nothing', async () => {
    expect((await send('GET /v1/webhooks', {})).body).to.deep.equal({ data: [], has_more: false });
  });
});
