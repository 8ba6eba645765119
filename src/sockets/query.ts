import { refuse } from '../errors.ts';
import { foldCase } from '../http/json/tokens.ts';

/** What a query says of a realtime session. */
export interface SessionQuery {
  /** As it came, with its `?`. */
  readonly search: string;
  readonly model: string | undefined;
  /** The call that a socket listens to. */
  readonly callId: string | undefined;
}

const names = ['model', 'call_id'];

/** @throws GatewayError `duplicate_parameter`, `unknown_parameter`; `invalid_value` where it names both a call and a model */
export function readQuery(search: string): SessionQuery {
  const parameters = new URLSearchParams(search);
  for (const given of parameters.keys()) {
    // some readers take these for the parameter itself
    const base = foldCase(/^[^[.]*/.exec(given)?.[0] ?? '').trim();
    if (!names.includes(given) && names.includes(base)) {
      refuse('unknown_parameter', given, `is too much like '${base}': write '${base}'`);
    }
  }
  for (const name of names) {
    if (parameters.getAll(name).length > 1) refuse('duplicate_parameter', name, 'appears twice in the query');
  }
  const model = parameters.get('model') || undefined;
  const callId = parameters.get('call_id') ?? undefined;
  if (callId !== undefined && model !== undefined) refuse('invalid_value', 'model', 'must be left out with call_id');
  return { search, model, callId };
}

/** A query with the upstream's name for the model, and all else as it came. A handshake that names none stays without. */
export function withModel(search: string, model: string | undefined): string {
  if (model === undefined) return search;
  const others = search
    .slice(1)
    .split('&')
    .filter((parameter) => parameter && !new URLSearchParams(parameter).has('model'));
  return `?${[`model=${encodeURIComponent(model)}`, ...others].join('&')}`;
}
