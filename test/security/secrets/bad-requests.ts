import { rotated, secret, strangersToken } from './canaries.ts';

/** Calls the API: method, path, body, Authorization header, more headers. */
type Call = (
  method: string,
  path: string,
  body?: unknown,
  authorization?: string,
  headers?: object,
) => Promise<unknown>;

/** Puts secrets where they do not belong, in every way that is refused. */
export async function sendBadRequests(call: Call, url: string, id: string, apiKey: string): Promise<void> {
  const good = { url: url, events: ['credits.low'], secret };
  await call('POST', '/v1/webhooks', { ...good, url: `https://user:${secret}@example.com/` });
  await call('POST', '/v1/webhooks', { ...good, name: secret });
  await call('POST', '/v1/webhooks', { ...good, secret: [secret] });
  await call('POST', '/v1/webhooks', { ...good, secret: `${secret}\0` });
  await call('POST', '/v1/webhooks', { ...good, secret: secret.repeat(9) });
  await call('POST', '/v1/webhooks', { ...good, events: [secret] });
  await call('POST', '/v1/webhooks', `{"secret":"${secret}","secret":"${secret}"}`);
  await call('POST', '/v1/webhooks', `{"secret":"${secret}",}`);
  await call('POST', '/v1/webhooks', `{"secret":"${secret}`);
  await call('POST', '/v1/webhooks', `secret=${secret}`, undefined, { 'content-type': 'text/plain' });
  await call('POST', `/v1/webhooks/${id}/rotate_secret`, { secret: rotated, overlap_seconds: -1 });
  await call('POST', `/v1/webhooks/wh_none/rotate_secret`, { secret: rotated });
  await call('PUT', '/v1/webhooks', { secret });
  for (const authorization of [
    '',
    `Bearer ${strangersToken}`,
    `Basic ${strangersToken}`,
    `Bearer ${strangersToken} x`,
  ]) {
    await call('GET', '/v1/webhooks', undefined, authorization);
    await call('POST', '/v1/chat/completions', { model: 'm', messages: [] }, authorization);
  }
  await call('GET', '/v1/webhooks', undefined, `Bearer ${apiKey.slice(0, -1)}x`);
}
