import { href } from '../routing/route.ts';

const viewOfPrefix: Readonly<Record<string, string>> = {
  wh: 'webhooks',
  evt: 'events',
  dlv: 'deliveries',
  key: 'keys',
};

/** The address of what an id names; `undefined` for a text that is no such id. */
export function addressOf(id: string): string | undefined {
  const [, prefix = ''] = /^([a-z]+)_[0-9a-z]{26}$/.exec(id) ?? [];
  const view = viewOfPrefix[prefix];
  return view && href([view, id]);
}
