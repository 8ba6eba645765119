import { chats, goodChat, patched, type Row, rotated, unknownId } from './row.ts';

export const ids: Row[] = [
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
  ['an unknown model to chat with', chats, { body: goodChat }, 404, 'model_not_found', 'model'],
];

export const queries: Row[] = [
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
