import { isGatewayError, refuse } from '../errors.ts';
import type { Admission, RequestedCall } from '../proxy/admission.ts';
import { failure } from '../proxy/failure.ts';
import { errorInMessage } from '../proxy/inspect-answer.ts';
import { promptBytesPerToken, shortValue, splice } from '../proxy/model-body.ts';
import { namedObjects, requireOwned } from '../stored/references.ts';
import { type Bridge, SocketEnd } from './bridge.ts';
import { Conversation, outputOf } from './conversation.ts';
import {
  type ClientEvent,
  responseIdOf,
  sessionEvents,
  translatedParts,
  translatedSound,
  type UpstreamEvent,
} from './events.ts';
import type { AskedResponse } from './metered-responses.ts';
import { eventIdOf, MeteredSession, type SessionDependencies } from './session.ts';
import { checkModels, type ModelSessionOptions } from './session-models.ts';
import { SoundPause } from './sound-admission.ts';
import { soundEvent, Transcriptions } from './transcriptions.ts';

/** What was admitted before the response has begun that it is for. */
interface AdvanceAdmission {
  /** The response, as it was expected; `undefined` where only its request was admitted. */
  readonly call: RequestedCall | undefined;
  readonly admissions: readonly Admission[];
}

/** Whether a response costs no more than what was admitted. */
function covers(advance: AdvanceAdmission | undefined, { estimatedTokens, output }: RequestedCall): boolean {
  const expected = advance?.call;
  return (
    expected !== undefined &&
    expected.estimatedTokens >= estimatedTokens &&
    expected.output.maxTokens === output.maxTokens
  );
}

/**
 * A realtime session. Upstreams begin responses by themselves when a user has spoken, so sound goes up only when the next response is admitted: the first
 * with the handshake, each further one when the client asks for it, or sends sound.
 */
export class RealtimeSession extends MeteredSession {
  readonly #options: ModelSessionOptions;
  readonly #conversation = new Conversation();
  /** What is admitted for the next response. */
  #advance: AdvanceAdmission | undefined;
  readonly #pause = new SoundPause();
  /** Whether the last response that the upstream has begun by itself was refused, and nothing was admitted since. */
  #hasCancelled = false;
  readonly #transcriptions: Transcriptions;

  constructor(deps: SessionDependencies, options: ModelSessionOptions) {
    super(deps, options);
    this.#options = options;
    this.#advance = { call: this.#nextCall(), admissions: options.admissions };
    this.#transcriptions = new Transcriptions(deps, {
      caller: options.caller,
      upstream: options.upstream,
      sessionModel: options.model,
      model: options.transcriptionModel,
      takeAdmissions: () => this.#takeAdmissions(),
      onCommitted: (seconds) => this.#conversation.heard(seconds),
    });
  }

  override get isBusy(): boolean {
    return super.isBusy || this.#transcriptions.isBusy;
  }

  protected async take(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[] | undefined> {
    if (event.type === soundEvent) {
      const isAdmitted = covers(this.#advance, this.#nextCall()) && this.#transcriptions.covers(event);
      if (!isAdmitted && !(await this.#admitSound(event, bridge))) return undefined;
      // it names nothing
      this.#transcriptions.sent(event);
      return event.rawBody;
    }
    if (event.type === translatedSound)
      refuse('invalid_value', 'type', 'belongs to a session at /v1/realtime/translations');
    const { caller, upstream, deps } = this;
    const { edits, transcribing } = checkModels(event, { caller, upstream, deps }, this.#options);
    const references = await namedObjects(event);
    if (references.length > 0) {
      await requireOwned(deps.storedObjects, { ...event, principal: caller.principal }, { references }, [upstream]);
    }
    await this.#transcriptions.admit(event, transcribing);
    if (event.type === 'response.create') await this.#ask(event, bridge);
    const sound = this.#transcriptions.sent(event);
    if (sound !== undefined) this.#conversation.heard(sound);
    else this.#conversation.sent(event);
    return splice(event.rawBody, edits);
  }

  override ended(hasLeft: boolean): void {
    super.ended(hasLeft);
    this.#transcriptions.endAll(hasLeft ? 'client_left' : 'upstream_failed');
    for (const admission of this.#takeAdmissions()) admission.dropped();
  }

  #takeAdmissions(): readonly Admission[] {
    const { admissions = [] } = this.#advance ?? {};
    this.#advance = undefined;
    return admissions;
  }

  protected unasked(): AskedResponse {
    const call = this.#nextCall();
    const admissions = covers(this.#advance, call) ? this.#takeAdmissions() : undefined;
    return { call, upstream: this.upstream, admissions };
  }

  /**
   * A response that begins now.
   * @param given the bytes of what it reads beside the conversation
   * @param output @default what the session lets it write
   */
  #nextCall(given = 0, output = this.#conversation.output): RequestedCall {
    const tokens = this.#conversation.tokens + Math.ceil(given / promptBytesPerToken);
    return { ...this.requested(this.#options.model, tokens), output };
  }

  async #ask({ eventId, rawBody, fields }: ClientEvent, bridge: Bridge): Promise<void> {
    const { start = 0, end = 0 } = fields.get('response') ?? {};
    const output = outputOf('response', (name) => shortValue(rawBody, fields.get(`response.${name}`)));
    const call = this.#nextCall(end - start, output);
    await this.requireKey(bridge);
    const admissions = await this.#admit(call);
    this.responses.asked({ call, upstream: this.upstream, admissions, eventId });
  }

  /** Has the next response admitted. What was admitted in advance is its request; where that is not enough for it, it is given back, and the whole admitted. */
  async #admit(call: RequestedCall): Promise<readonly Admission[]> {
    const advance = this.#advance;
    const taken = this.#takeAdmissions();
    if (covers(advance, call)) return taken;
    for (const admission of taken) admission.dropped();
    try {
      const output = advance ? ({ ...call.output, counts: 'tokens' } as const) : call.output;
      const admissions = await this.caller.admit({ ...call, output });
      this.#pause.end();
      this.#hasCancelled = false;
      return admissions;
    } catch (error) {
      // its request has been counted
      if (advance) this.#advance ??= { call: undefined, admissions: [] };
      throw error;
    }
  }

  /** Has the response admitted that may follow some sound, and the transcription of that. @returns whether the sound may go up. @throws GatewayError */
  #admitSound(event: ClientEvent, bridge: Bridge): Promise<boolean> {
    return this.#pause.admit(async () => {
      await this.requireKey(bridge);
      const call = this.#nextCall();
      this.#advance = { call, admissions: await this.#admit(call) };
      await this.#transcriptions.admit(event);
    });
  }

  protected async note(event: UpstreamEvent, bridge: Bridge): Promise<void> {
    const { type } = event;
    if (type === 'response.created') await this.#admitUnasked(event, bridge);
    else if (type === 'response.done') this.#noteEnd(event);
    else if (type === 'error') this.#noteRefusal(event);
    else if (translatedParts.has(type)) throw new SocketEnd(failure('upstream_invalid_response'));
    else {
      if (sessionEvents.has(type)) this.#conversation.configured(event);
      this.#transcriptions.saw(event);
    }
  }

  /**
   * Has a response admitted that the upstream has begun by itself; one that is refused is cancelled.
   * @throws SocketEnd where that was so before, and nothing was admitted since: the upstream begins them whatever it is sent
   */
  async #admitUnasked({ response }: UpstreamEvent, bridge: Bridge): Promise<void> {
    try {
      await this.responses.admit(async (call) => {
        await this.caller.requireKey();
        return this.#admit(call);
      });
    } catch (error) {
      await bridge.ask({ type: 'response.cancel', response_id: response?.id });
      if (!isGatewayError(error)) throw error;
      if (this.#hasCancelled) throw new SocketEnd(error);
      this.#hasCancelled = true;
      await bridge.report(error);
    }
  }

  #noteEnd(event: UpstreamEvent): void {
    const { response } = event;
    const { estimatedTokens, record } = this.responses.ended(
      responseIdOf(event),
      response?.usage,
      errorInMessage(event),
    );
    // `null` where it is no part of the conversation
    if (response?.conversation_id !== null) this.#conversation.answered(estimatedTokens, record);
  }

  /** The upstream refuses an event of the client's. */
  #noteRefusal(event: UpstreamEvent): void {
    const eventId = eventIdOf(event);
    const isAboutSound =
      eventId !== undefined || /input.audio.buffer/.test(`${event.error?.code} ${event.error?.message}`);
    if (!isAboutSound || !this.#transcriptions.refused(eventId)) this.responses.refused(eventId);
  }
}
