import { href } from '../data/route.ts';
import * as icons from '../elements/icons.tsx';

/** The views that the navigation leads to, each with the scope that it needs, and how the ids of what it shows begin. */
export const views = [
  { view: 'webhooks', name: 'Webhooks', Icon: icons.WebhookIcon, scope: 'webhooks', prefix: 'wh' },
  { view: 'events', name: 'Events', Icon: icons.EventIcon, scope: 'webhooks', prefix: 'evt' },
  { view: 'deliveries', name: 'Deliveries', Icon: icons.DeliveryIcon, scope: 'webhooks', prefix: 'dlv' },
  { view: 'event-types', name: 'Event types', Icon: icons.TypesIcon, scope: 'webhooks' },
  { view: 'verification', name: 'Verification', Icon: icons.VerifyIcon, scope: 'webhooks' },
  { view: 'keys', name: 'API keys', Icon: icons.KeyIcon, scope: 'keys', prefix: 'key' },
  { view: 'usage', name: 'Usage', Icon: icons.UsageIcon, scope: 'models' },
  { view: 'storage', name: 'Storage', Icon: icons.StorageIcon, scope: 'models' },
] as const;

/** What the operator sees of all accounts. */
export const operatorViews = [
  { view: 'status', name: 'Status', Icon: icons.StatusIcon, scope: 'admin' },
  { view: 'accounts', name: 'Accounts', Icon: icons.AccountIcon, scope: 'admin' },
  { view: 'failing-webhooks', name: 'Failing webhooks', Icon: icons.WarnIcon, scope: 'admin' },
  { view: 'refusals', name: 'Refusals', Icon: icons.RefusedIcon, scope: 'admin' },
] as const;

const all = [...views, ...operatorViews];

export type ViewName = (typeof all)[number]['view'];

/** What the navigation calls a view. */
export function viewTitle(view: ViewName): string {
  return all.find((known) => known.view === view)?.name ?? view;
}

/** The first view for these scopes; `undefined` if they show nothing. */
export function firstView(scopes: readonly string[]): string | undefined {
  return all.find(({ scope }) => scopes.includes(scope))?.view;
}

/** The scope that a view needs and that is not among these. */
export function missingScope(view: string, scopes: readonly string[]): string | undefined {
  const needed = views.find((known) => known.view === view)?.scope;
  return needed !== undefined && !scopes.includes(needed) ? needed : undefined;
}

/** The id that a text gives: of a whole API key only its id, so that its secret goes nowhere. */
export function idOf(text: string): string {
  return text.trim().replace(/^emg_([0-9a-z]{26})(_.*)?$/, 'key_$1');
}

/** The address of what an id names; `undefined` for a text that is no such id. */
export function addressOf(id: string): string | undefined {
  const [, prefix] = /^([a-z]+)_[0-9a-z]{26}$/.exec(id) ?? [];
  const named = views.find((known) => 'prefix' in known && known.prefix === prefix);
  return named && href([named.view, id]);
}
