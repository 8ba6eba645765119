import { refuse } from '../errors.ts';

/** What a query says of a realtime session. */
export interface SessionQuery {
  /** As it came, with its `?`. */
  readonly search: string;
  readonly model: string | undefined;
  /** The call that a socket listens to. */
  readonly callId: string | undefined;
}

/** @throws GatewayError `duplicate_parameter`; `invalid_value` where it names both a call and a model */
export function readQuery(search: string): SessionQuery {
  const parameters = new URLSearchParams(search);
  for (const name of ['model', 'call_id']) {
    if (parameters.getAll(name).length > 1) refuse('duplicate_parameter', name, 'appears twice in the query');
  }
  const model = parameters.get('model') || undefined;
  const callId = parameters.get('call_id') ?? undefined;
  if (callId !== undefined && model !== undefined) refuse('invalid_value', 'model', 'must be left out with call_id');
  return { search, model, callId };
}

/** A query with the upstream's name for the model, and all else as it came. A handshake that names none stays without. Pure. */
export function withModel(search: string, model: string | undefined): string {
  if (model === undefined) return search;
  const others = search
    .slice(1)
    .split('&')
    .filter((parameter) => parameter && !new URLSearchParams(parameter).has('model'));
  return `?${[`model=${encodeURIComponent(model)}`, ...others].join('&')}`;
}
