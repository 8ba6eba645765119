import { DeliveryIcon, EventIcon, KeyIcon, TypesIcon, UsageIcon, VerifyIcon, WebhookIcon } from '../elements/icons.tsx';

/** The views that the navigation leads to, each with the scope that it needs. */
export const places = [
  { place: 'webhooks', name: 'Webhooks', Icon: WebhookIcon, scope: 'webhooks' },
  { place: 'events', name: 'Events', Icon: EventIcon, scope: 'webhooks' },
  { place: 'deliveries', name: 'Deliveries', Icon: DeliveryIcon, scope: 'webhooks' },
  { place: 'event-types', name: 'Event types', Icon: TypesIcon, scope: 'webhooks' },
  { place: 'verification', name: 'Verification', Icon: VerifyIcon, scope: 'webhooks' },
  { place: 'keys', name: 'API keys', Icon: KeyIcon, scope: 'keys' },
  { place: 'usage', name: 'Usage', Icon: UsageIcon, scope: 'models' },
] as const;

/** Where somebody with these scopes begins; `undefined` where there is nothing for them to see. */
export function firstPlace(scopes: readonly string[]): string | undefined {
  return places.find(({ scope }) => scopes.includes(scope))?.place;
}

/** The scope that a place needs and that is not among these. */
export function missingScope(place: string, scopes: readonly string[]): string | undefined {
  const needed = places.find((one) => one.place === place)?.scope;
  return needed !== undefined && !scopes.includes(needed) ? needed : undefined;
}
