import { isGatewayError, refuse } from '../errors.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import { type Admission, oneAnswer, type RequestedCall, requireAllowedModel } from '../proxy/admission.ts';
import { failure } from '../proxy/failure.ts';
import { checkModelName, type Edit, shortValue, splice } from '../proxy/model-body.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import { type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { namedObjects, requireOwned } from '../stored/references.ts';
import { type Bridge, type Message, SocketEnd, type SocketSession } from './bridge.ts';
import type { SocketCaller } from './caller.ts';
import { type ClientEvent, readClientEvent, readUpstreamEvent, responseIdOf, type UpstreamEvent } from './events.ts';
import { type AskedResponse, MeteredResponses } from './metered-responses.ts';
import { errorOfEvent, maskedMessage } from './upstream-errors.ts';

const transcriptionFields = ['session.audio.input.transcription.model', 'session.input_audio_transcription.model'];
const transcribed = 'conversation.item.input_audio_transcription.completed';
/** Sound that is sent up, which names nothing. */
const soundEvent = 'input_audio_buffer.append';

interface RealtimeOptions {
  readonly caller: SocketCaller;
  readonly upstream: Upstream;
  /** As the caller named it. */
  readonly model: string | undefined;
  /** As it is asked for at the upstream, by the name that callers use. */
  readonly calledModel: string | undefined;
  /** What was admitted with the handshake, for the first response. */
  readonly admissions: readonly Admission[];
  readonly shape: BodyShape;
}

/**
 * A realtime session. Upstreams begin responses by themselves when a user has spoken, so one is always admitted in advance: the first with the handshake,
 * each further one when one has been charged.
 */
export class RealtimeSession implements SocketSession {
  readonly maxSilence: number;
  readonly #deps: RelayDependencies;
  readonly #options: RealtimeOptions;
  readonly #responses: MeteredResponses;
  /** What is admitted for the next response. */
  #admissions: readonly Admission[] | undefined;
  /** The model that transcribes what users say, as the caller named it. */
  #transcriptionModel: string | undefined;

  constructor(deps: RelayDependencies, options: RealtimeOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#admissions = options.admissions;
    this.#responses = new MeteredResponses(deps, options.caller.principal);
    this.maxSilence = options.upstream.timeouts.firstByte;
  }

  get isBusy(): boolean {
    return this.#responses.isBusy;
  }

  get masksErrors(): boolean {
    return this.#options.upstream.maskErrors;
  }

  check(): Promise<void> {
    return this.#options.caller.requireKey();
  }

  async fromClient(message: Message, bridge: Bridge): Promise<void> {
    const event = await readClientEvent(message, this.#options.shape);
    if (!event || event.type === soundEvent) return bridge.toUpstream(message);
    try {
      const data = splice(message.data, this.#checkModels(event));
      await this.#requireOwned(event);
      if (event.type === 'response.create') await this.#ask(event, bridge);
      await bridge.toUpstream({ ...message, data: Buffer.isBuffer(data) ? data : Buffer.concat(data) });
    } catch (error) {
      if (!isGatewayError(error)) throw error;
      await bridge.report(error, event.eventId);
    }
  }

  async fromUpstream(message: Message, bridge: Bridge): Promise<void> {
    const event = readUpstreamEvent(message);
    if (event?.type === 'response.created') this.#responses.begun(responseIdOf(event), () => this.#unasked());
    else if (event) this.#responses.saw(event);
    // whether or not the client reads
    const hasEnded = event !== undefined && this.#charge(event);
    await bridge.toClient(event ? maskedMessage(message, event, this.#source) : message);
    if (!hasEnded || bridge.isClosing) return;
    await this.#options.caller.requireKey();
    this.#admissions ??= await this.#admit(this.#call());
  }

  ended(hasLeft: boolean): void {
    this.#responses.endAll(hasLeft ? 'client_left' : 'upstream_failed');
    for (const admission of this.#takeAdmissions() ?? []) admission.dropped();
  }

  #call(model = this.#options.model): RequestedCall {
    return { info: this.#options.caller.call(model), estimatedTokens: 0, output: oneAnswer };
  }

  /** @throws SocketEnd when it is refused: what is begun without being asked for could not be refused otherwise */
  async #admit(call: RequestedCall): Promise<readonly Admission[]> {
    try {
      return await this.#options.caller.admit(call);
    } catch (error) {
      throw isGatewayError(error) ? new SocketEnd(error) : error;
    }
  }

  get #source() {
    const { upstream, caller } = this.#options;
    return { upstream, requestId: caller.requestId, logger: this.#deps.logger };
  }

  #takeAdmissions(): readonly Admission[] | undefined {
    const admissions = this.#admissions;
    this.#admissions = undefined;
    return admissions;
  }

  /** A response that the upstream makes by itself. */
  #unasked(model?: string): AskedResponse {
    return { call: this.#call(model), upstream: this.#options.upstream, admissions: this.#takeAdmissions() ?? [] };
  }

  async #ask({ eventId }: ClientEvent, bridge: Bridge): Promise<void> {
    if (bridge.isClosing) throw failure('shutting_down');
    const { caller, upstream } = this.#options;
    const call = this.#call();
    await caller.requireKey();
    const admissions = this.#takeAdmissions() ?? (await this.#admit(call));
    this.#responses.asked({ call, upstream, admissions, eventId });
  }

  /** @returns whether the event ends what was admitted */
  #charge(event: UpstreamEvent): boolean {
    const { type, response, usage, error } = event;
    if (type === 'response.done') {
      this.#responses.ended(responseIdOf(event), response?.usage, errorOfEvent(event), () => this.#unasked());
      return true;
    }
    if (type === transcribed && usage) {
      this.#responses.counted(this.#unasked(this.#transcriptionModel), usage);
      return true;
    }
    const eventId = typeof error?.event_id === 'string' ? error.event_id : undefined;
    return type === 'error' && this.#responses.refused(eventId);
  }

  /**
   * Checks the models that an event names, and gives them the upstream's names.
   * @throws GatewayError `invalid_value`, `model_not_allowed`
   */
  #checkModels({ rawBody, fields }: ClientEvent): readonly Edit[] {
    const { upstream, model, calledModel, caller } = this.#options;
    const edits: Edit[] = [];
    const span = fields.get('session.model');
    const named = shortValue(rawBody, span);
    const upstreamName = calledModel === undefined ? undefined : upstreamModelName(upstream, calledModel);
    if (span && named !== null && named !== upstreamName) {
      // clients send back the session that they were shown, which has the upstream's name
      if (model === undefined || named !== model) refuse('invalid_value', 'session.model', 'cannot be changed');
      edits.push({ ...span, text: JSON.stringify(upstreamName) });
    }
    for (const path of transcriptionFields) {
      const range = fields.get(path);
      const transcriptionModel = shortValue(rawBody, range);
      if (!range || typeof transcriptionModel !== 'string') continue;
      checkModelName(transcriptionModel);
      requireAllowedModel(caller.principal, transcriptionModel);
      this.#deps.storedObjects.models.requireOpen(transcriptionModel, caller.principal.userId, [upstream]);
      this.#transcriptionModel = transcriptionModel;
      edits.push({ ...range, text: JSON.stringify(upstreamModelName(upstream, transcriptionModel)) });
    }
    return edits;
  }

  /** @throws GatewayError `file_not_found` and so on */
  async #requireOwned({ rawBody, fields }: ClientEvent): Promise<void> {
    const references = await namedObjects({ rawBody, fields });
    if (references.length === 0) return;
    const { caller, upstream } = this.#options;
    await requireOwned(this.#deps.storedObjects, { principal: caller.principal, rawBody, fields }, { references }, [
      upstream,
    ]);
  }
}
