import {
  AccountIcon,
  DeliveryIcon,
  EventIcon,
  KeyIcon,
  RefusedIcon,
  StatusIcon,
  TypesIcon,
  UsageIcon,
  VerifyIcon,
  WarnIcon,
  WebhookIcon,
} from '../elements/icons.tsx';

/** The views that the navigation leads to, each with the scope that it needs. */
export const views = [
  { view: 'webhooks', name: 'Webhooks', Icon: WebhookIcon, scope: 'webhooks' },
  { view: 'events', name: 'Events', Icon: EventIcon, scope: 'webhooks' },
  { view: 'deliveries', name: 'Deliveries', Icon: DeliveryIcon, scope: 'webhooks' },
  { view: 'event-types', name: 'Event types', Icon: TypesIcon, scope: 'webhooks' },
  { view: 'verification', name: 'Verification', Icon: VerifyIcon, scope: 'webhooks' },
  { view: 'keys', name: 'API keys', Icon: KeyIcon, scope: 'keys' },
  { view: 'usage', name: 'Usage', Icon: UsageIcon, scope: 'models' },
] as const;

/** What the operator sees of all accounts. */
export const operatorViews = [
  { view: 'status', name: 'Status', Icon: StatusIcon, scope: 'admin' },
  { view: 'accounts', name: 'Accounts', Icon: AccountIcon, scope: 'admin' },
  { view: 'failing-webhooks', name: 'Failing webhooks', Icon: WarnIcon, scope: 'admin' },
  { view: 'refusals', name: 'Refusals', Icon: RefusedIcon, scope: 'admin' },
] as const;

/** The first view for these scopes; `undefined` if they show nothing. */
export function firstView(scopes: readonly string[]): string | undefined {
  return [...views, ...operatorViews].find(({ scope }) => scopes.includes(scope))?.view;
}

/** The scope that a view needs and that is not among these. */
export function missingScope(view: string, scopes: readonly string[]): string | undefined {
  const needed = views.find((known) => known.view === view)?.scope;
  return needed !== undefined && !scopes.includes(needed) ? needed : undefined;
}
