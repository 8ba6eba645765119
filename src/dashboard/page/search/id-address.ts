import { href } from '../routing/route.ts';

const viewOfPrefix: Readonly<Record<string, string>> = {
  wh: 'webhooks',
  evt: 'events',
  dlv: 'deliveries',
  key: 'keys',
};

/** The id that a text gives: of a whole API key only its id, so that its secret goes nowhere. */
export function idOf(text: string): string {
  return text.trim().replace(/^emg_([0-9a-z]{26})(_.*)?$/, 'key_$1');
}

/** The address of what an id names; `undefined` for a text that is no such id. */
export function addressOf(id: string): string | undefined {
  const [, prefix = ''] = /^([a-z]+)_[0-9a-z]{26}$/.exec(id) ?? [];
  const view = viewOfPrefix[prefix];
  return view && href([view, id]);
}
