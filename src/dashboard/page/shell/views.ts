import type { JSX } from 'preact';
import { href } from '../data/route.ts';
import * as icons from '../elements/icons.tsx';

interface KnownView {
  readonly view: string;
  readonly name: string;
  readonly Icon: () => JSX.Element;
  /** One of them is needed. */
  readonly scopes: readonly string[];
  /** How the ids of what it shows begin. */
  readonly prefix?: string;
}

/** The views of the account that the navigation leads to. */
export const views = [
  { view: 'overview', name: 'Overview', Icon: icons.OverviewIcon, scopes: ['webhooks', 'models'] },
  { view: 'webhooks', name: 'Webhooks', Icon: icons.WebhookIcon, scopes: ['webhooks'], prefix: 'wh' },
  { view: 'events', name: 'Events', Icon: icons.EventIcon, scopes: ['webhooks'], prefix: 'evt' },
  { view: 'deliveries', name: 'Deliveries', Icon: icons.DeliveryIcon, scopes: ['webhooks'], prefix: 'dlv' },
  { view: 'event-types', name: 'Event types', Icon: icons.TypesIcon, scopes: ['webhooks'] },
  { view: 'verification', name: 'Verification', Icon: icons.VerifyIcon, scopes: ['webhooks'] },
  { view: 'keys', name: 'API keys', Icon: icons.KeyIcon, scopes: ['keys'], prefix: 'key' },
  { view: 'usage', name: 'Usage', Icon: icons.UsageIcon, scopes: ['models'] },
  { view: 'storage', name: 'Storage', Icon: icons.StorageIcon, scopes: ['models'] },
] as const satisfies readonly KnownView[];

/** What the operator sees of all accounts. */
export const operatorViews = [
  { view: 'status', name: 'Status', Icon: icons.StatusIcon, scopes: ['admin'] },
  { view: 'accounts', name: 'Accounts', Icon: icons.AccountIcon, scopes: ['admin'] },
  { view: 'failing-webhooks', name: 'Failing webhooks', Icon: icons.WarnIcon, scopes: ['admin'] },
  { view: 'refusals', name: 'Refusals', Icon: icons.RefusedIcon, scopes: ['admin'] },
] as const satisfies readonly KnownView[];

const all = [...views, ...operatorViews];

/** Whether these scopes show a view. */
export function isShown({ scopes: needed }: Pick<KnownView, 'scopes'>, scopes: readonly string[]): boolean {
  return needed.some((scope) => scopes.includes(scope));
}

export type ViewName = (typeof all)[number]['view'];

/** What the navigation calls a view. */
export function viewTitle(view: ViewName): string {
  return all.find((known) => known.view === view)?.name ?? view;
}

/** The first view for these scopes; `undefined` if they show nothing. */
export function firstView(scopes: readonly string[]): string | undefined {
  return all.find((known) => isShown(known, scopes))?.view;
}

/** The scope that a view needs and that is not among these. */
export function missingScope(view: string, scopes: readonly string[]): string | undefined {
  const named = views.find((known) => known.view === view);
  return named && !isShown(named, scopes) ? named.scopes[0] : undefined;
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
