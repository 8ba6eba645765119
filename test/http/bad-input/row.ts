/** What is sent, beside a good key: text and bytes as they are, anything else as JSON. */
export interface Sent {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

/** What, method and path, what is sent, status, `error.code`, `error.param`. */
export type Row = [what: string, target: string, sent: Sent, status: number, code: string, param?: string];

export const goodWebhook = { url: 'https://example.com/hook', events: ['credits.low'], secret: 'long-enough' };
export const goodChat = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
export const unknownId = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';

/** A webhook that is good but for some fields. */
export function create(patch: object): Sent {
  return { body: { ...goodWebhook, ...patch } };
}

export const webhooks = 'POST /v1/webhooks';
export const chats = 'POST /v1/chat/completions';
export const patched = `PATCH /v1/webhooks/${unknownId}`;
export const rotated = `POST /v1/webhooks/${unknownId}/rotate_secret`;
