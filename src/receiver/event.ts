import type { webhooks } from '../api.d.ts';

/**
 * An event as it is delivered: narrow it by `type`. While webhooks are in beta a type may come that is not
 * listed here yet, so keep a default branch.
 */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json'];
}[keyof webhooks];
