import { randomBytes } from 'node:crypto';
import { wrongUse } from '../../terminal/command-failure.ts';
import type { Call } from '../call.ts';
import { type WebhookView, webhookLines } from './view.ts';

/** What the option for a secret says, wherever there is one. */
export const secretHelp = '8 to 256 characters; - reads it from stdin; one is made and shown once when it is left out';

/** A secret to sign with, and whether it was made here. */
export interface Secret {
  readonly text: string;
  readonly made: boolean;
}

/** As Standard Webhooks writes secrets: `whsec_` and base64, here of 32 random bytes. */
function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** @throws CommandFailure where a program would never learn the secret, which the API does not answer */
export async function readSecret({ json, terminal }: Call, given: string | undefined): Promise<Secret> {
  if (given === '-') return { text: (await terminal.readInput()).trim(), made: false };
  if (given !== undefined) return { text: given, made: false };
  if (json) throw wrongUse('--json needs --secret: the API never answers a secret.');
  return { text: newSecret(), made: true };
}

/** Shows a webhook, and the secret where nobody has seen it yet. */
export function showWithSecret({ show, terminal }: Call, webhook: WebhookView, { text, made }: Secret): void {
  show(webhook, (body, paint, now) => webhookLines(made ? { ...body, secret: text } : body, paint, now));
  if (made) terminal.tell('Give the secret to the receiver; it is shown this once.');
}
