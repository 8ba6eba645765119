import type { Call } from '../../client/call.ts';
import { type WebhookView, webhookLines } from './view.ts';

/** What the option for a secret says, wherever there is one. */
export const secretHelp =
  '8 to 256 characters, hard to guess; - reads it from stdin; one is made and shown once when it is left out';

/** The field that a request has for the secret: none where the gateway is to make it. */
export async function secretField(
  { terminal }: Call,
  given: string | undefined,
): Promise<{ readonly secret?: string }> {
  if (given === undefined) return {};
  return { secret: given === '-' ? (await terminal.readInput()).trim() : given };
}

/** Shows a webhook, and the secret where the gateway has made it. */
export function showWithSecret({ show, terminal }: Call, webhook: WebhookView): void {
  show(webhook, webhookLines);
  if (webhook.secret !== undefined) terminal.tell('Give the secret to the receiver; it is shown this once.');
}
