import { href } from '../routing/route.ts';

const places: Readonly<Record<string, string>> = { wh: 'webhooks', evt: 'events', dlv: 'deliveries', key: 'keys' };

/** The address of what an id names; `undefined` for a text that is no such id. */
export function addressOf(id: string): string | undefined {
  const [, prefix = ''] = /^([a-z]+)_[0-9a-z]{26}$/.exec(id) ?? [];
  const place = places[prefix];
  return place && href([place, id]);
}
