import type { ServerResponse } from 'node:http';

export const secret = 'the secret of a webhook';
export const webhook = { url: 'http://127.0.0.1:9/hook', events: ['credits.low'], secret };
export const event = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 1, threshold: 5 },
};

/** Headers that authenticate nobody, although most hold a good key or one that was good. */
export function wrongCredentials(key: string, revoked: string): Readonly<Record<string, string>>[] {
  const altered = `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`;
  return [
    {},
    { authorization: `Bearer ${revoked}` },
    { authorization: `Bearer ${altered}` },
    { authorization: `Bearer ${key.toUpperCase()}` },
    { authorization: `Basic ${Buffer.from(`x:${key}`).toString('base64')}` },
    { authorization: key },
    { authorization: `Bearer ${key}, Bearer ${key}` },
    { 'x-api-key': revoked },
    { 'x-api-key': altered },
    { 'x-api-key': `Bearer ${key}` },
    { 'x-api-key': `${key}, ${key}` },
    { authorization: `Basic ${Buffer.from(`x:${key}`).toString('base64')}`, 'x-api-key': key },
    { 'api-key': key },
    { cookie: `key=${key}` },
  ];
}

/** Fields of a webhook that are the gateway's to set, by the names they have inside and outside. */
export const ownFields: readonly string[] = [
  'id',
  '_id',
  'userId',
  'user_id',
  'created_at',
  'createdAt',
  'slot',
  'sealedWith',
  'rotation',
];

/** What somebody might try beside what openapi.yaml has. */
export const undocumentedPaths: readonly string[] = [
  '/v2/webhooks',
  '/v0/models',
  '/v1beta/models',
  '/V1/webhooks',
  '/v1',
  '/v1/internal',
  '/v1/debug',
  '/v1/metrics',
  '/v1/admin/keys',
  '/v1/webhooks/wh_1/secret',
  '/v1/webhooks/../admin',
  '/v1/completions/debug',
  '/openapi.yaml',
];

/** Answers 200 and then goes on for ever, with what would do harm where it is shown. */
export function flood(res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/html' });
  const more = (): void => {
    while (res.write('<script>\0\x1b[2J'.repeat(1_000)));
  };
  res.on('drain', more);
  more();
}
