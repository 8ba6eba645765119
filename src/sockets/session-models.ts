import { refuse } from '../errors.ts';
import { type Admission, requireAllowedModel } from '../proxy/admission.ts';
import { checkModelName, type Edit, shortValue } from '../proxy/model-body.ts';
import { type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import type { SocketCaller } from './caller.ts';
import { type ClientEvent, transcriptionFields } from './events.ts';
import type { SessionDependencies, SessionOptions } from './session.ts';

/** A session with one model. */
export interface ModelSessionOptions extends SessionOptions {
  /** As the caller named it. */
  readonly model: string | undefined;
  /** As it is asked for at the upstream, by the name that callers use. */
  readonly calledModel: string | undefined;
  /** The model that transcribes what users say, as the caller named it, where an ephemeral secret is for one. */
  readonly transcriptionModel: string | undefined;
  /** What was admitted with the handshake, for what begins first. */
  readonly admissions: readonly Admission[];
}

/** Whose session it is, and at which upstream. */
interface SessionSides {
  readonly caller: SocketCaller;
  readonly upstream: Upstream;
  readonly deps: Pick<SessionDependencies, 'storedObjects'>;
}

/**
 * Checks the models that an event of a session names.
 * @returns the edits that give them the upstream's names, and those that are to transcribe what users say
 * @throws GatewayError `invalid_value`, `model_not_allowed`, `model_not_found`
 */
export function checkModels(
  { rawBody, fields }: ClientEvent,
  { caller, upstream, deps }: SessionSides,
  { model, calledModel }: Pick<ModelSessionOptions, 'model' | 'calledModel'>,
): { readonly edits: readonly Edit[]; readonly transcribing: readonly string[] } {
  const edits: Edit[] = [];
  const transcribing: string[] = [];
  const span = fields.get('session.model');
  const named = shortValue(rawBody, span);
  const upstreamName = calledModel === undefined ? undefined : upstreamModelName(upstream, calledModel);
  if (span && named !== null && named !== upstreamName) {
    // clients send back the session that they were shown, which has the upstream's name
    if (model === undefined || named !== model) refuse('invalid_value', 'session.model', 'cannot be changed');
    edits.push({ ...span, text: JSON.stringify(upstreamName) });
  }
  for (const path of transcriptionFields) {
    const range = fields.get(`session.${path}`);
    const transcriptionModel = shortValue(rawBody, range);
    if (!range || typeof transcriptionModel !== 'string') continue;
    checkModelName(transcriptionModel);
    requireAllowedModel(caller.principal, transcriptionModel);
    deps.storedObjects.models.requireOpen(transcriptionModel, caller.principal.userId, [upstream]);
    transcribing.push(transcriptionModel);
    edits.push({ ...range, text: JSON.stringify(upstreamModelName(upstream, transcriptionModel)) });
  }
  return { edits, transcribing };
}
