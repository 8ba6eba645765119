import type { CommandContext } from '../../client/context.ts';
import { type WebhookView, webhookLines } from './view.ts';

/** What the option for a secret says, wherever there is one. */
export const secretHelp =
  '8 to 256 characters, hard to guess; - reads it from stdin; one is made and shown once when it is left out';

/** The request's field for the secret: none where the gateway creates it. */
export async function secretField(
  { terminal }: CommandContext,
  option: string | undefined,
): Promise<{ readonly secret?: string }> {
  if (option === undefined) return {};
  return { secret: option === '-' ? (await terminal.readInput()).trim() : option };
}

/** Shows a webhook, and its secret where the gateway has created it. */
export function showWithSecret({ show, terminal }: CommandContext, webhook: WebhookView): void {
  show(webhook, webhookLines);
  if (webhook.secret !== undefined) terminal.printNote('Give the secret to the receiver; it is shown this once.');
}
