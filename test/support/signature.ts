import { createHmac } from 'node:crypto';

type Body = string | Uint8Array;

/** `x-service-signature`, as docs/webhooks.md describes it, by code of the tests' own. */
export function signBody(body: Body, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** One signature of `webhook-signature`, as Standard Webhooks describes it, by code of the tests' own. */
export function standardWebhookSignature(id: string, timestamp: number | string, body: Body, secret: string): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : secret;
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
}
