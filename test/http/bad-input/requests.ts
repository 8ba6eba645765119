import { gzipSync } from 'node:zlib';
import { chats, create, goodChat, patched, type Row, type Sent, unknownId, webhooks } from './row.ts';

const raw = (body: string | Buffer): Sent => ({ body });
const nested = (depth: number): string => `{"url":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

export const credentials: Row[] = [
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
  ['an unknown key', chats, { body: goodChat, headers: { authorization: 'Bearer nobody' } }, 401, 'invalid_api_key'],
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

export const methods: Row[] = [
  ['GET of a POST', 'GET /v1/embeddings', {}, 405, 'method_not_allowed'],
  ['PUT', 'PUT /v1/webhooks', create({}), 405, 'method_not_allowed'],
  ['PATCH of the list', 'PATCH /v1/webhooks', { body: {} }, 405, 'method_not_allowed'],
  ['DELETE of the list', 'DELETE /v1/webhooks', {}, 405, 'method_not_allowed'],
  ['POST to a webhook', `POST /v1/webhooks/${unknownId}`, { body: {} }, 405, 'method_not_allowed'],
  ['POST to the models', 'POST /v1/models', { body: {} }, 405, 'method_not_allowed'],
  ['PUT of a model', 'PUT /v1/models/a/b', {}, 405, 'method_not_allowed'],
  ['DELETE of a model of nobody', 'DELETE /v1/models/a/b', {}, 404, 'model_not_found', 'model'],
  ['GET of the rotation', `GET /v1/webhooks/${unknownId}/rotate_secret`, {}, 405, 'method_not_allowed'],
];

export const json: Row[] = [
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
  ['nothing but a byte order mark', webhooks, raw('\u{feff}'), 400, 'missing_required_parameter'],
  ['two byte order marks', webhooks, raw('\u{feff}\u{feff}{}'), 400, 'invalid_json'],
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

export const sizesAndTypes: Row[] = [
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
    { body: '{}', headers: { 'content-encoding': 'compress' } },
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
