import { refuse } from '../errors.ts';
import { type Admission, requireAllowedModel } from '../proxy/admission.ts';
import { failure } from '../proxy/failure.ts';
import { errorInMessage } from '../proxy/inspect-answer.ts';
import { checkModelName, type Edit, shortValue, splice } from '../proxy/model-body.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import { upstreamModelName } from '../proxy/upstream.ts';
import { namedObjects, requireOwned } from '../stored/references.ts';
import { type Bridge, orEnd } from './bridge.ts';
import { type ClientEvent, responseIdOf, transcriptionFields, type UpstreamEvent } from './events.ts';
import type { AskedResponse } from './metered-responses.ts';
import { eventIdOf, MeteredSession, type SessionOptions } from './session.ts';
import { soundEvent, Transcriptions } from './transcriptions.ts';

interface RealtimeOptions extends SessionOptions {
  /** As the caller named it. */
  readonly model: string | undefined;
  /** As it is asked for at the upstream, by the name that callers use. */
  readonly calledModel: string | undefined;
  /** The model that transcribes what users say, as the caller named it, where an ephemeral secret is for one. */
  readonly transcriptionModel: string | undefined;
  /** What was admitted with the handshake, for the first response. */
  readonly admissions: readonly Admission[];
}

/**
 * A realtime session. Upstreams begin responses by themselves when a user has spoken, so one is always admitted in advance: the first with the handshake,
 * each further one when one has been charged.
 */
export class RealtimeSession extends MeteredSession {
  readonly #options: RealtimeOptions;
  /** What is admitted for the next response. */
  #admissions: readonly Admission[] | undefined;
  readonly #transcriptions: Transcriptions;

  constructor(deps: RelayDependencies, options: RealtimeOptions) {
    super(deps, options);
    this.#options = options;
    this.#admissions = options.admissions;
    this.#transcriptions = new Transcriptions(deps, {
      caller: options.caller,
      upstream: options.upstream,
      sessionModel: options.model,
      model: options.transcriptionModel,
      takeAdmissions: () => this.#takeAdmissions() ?? [],
    });
  }

  override get isBusy(): boolean {
    return super.isBusy || this.#transcriptions.isBusy;
  }

  protected async take(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[]> {
    if (event.type === soundEvent) {
      // it names nothing
      this.#transcriptions.sent(event);
      return event.rawBody;
    }
    const data = splice(event.rawBody, this.#checkModels(event));
    const references = await namedObjects(event);
    if (references.length > 0) {
      const owner = { ...event, principal: this.caller.principal };
      await requireOwned(this.deps.storedObjects, owner, { references }, [this.upstream]);
    }
    if (event.type === 'response.create') await this.#ask(event, bridge);
    this.#transcriptions.sent(event);
    return data;
  }

  protected override async prepareNext(): Promise<void> {
    await this.caller.requireKey();
    // what is begun without being asked for could not be refused otherwise
    this.#admissions ??= await orEnd(this.caller.admit(this.requested(this.#options.model)));
  }

  override ended(hasLeft: boolean): void {
    super.ended(hasLeft);
    this.#transcriptions.endAll(hasLeft ? 'client_left' : 'upstream_failed');
    for (const admission of this.#takeAdmissions() ?? []) admission.dropped();
  }

  #takeAdmissions(): readonly Admission[] | undefined {
    const admissions = this.#admissions;
    this.#admissions = undefined;
    return admissions;
  }

  protected unasked(): AskedResponse {
    return {
      call: this.requested(this.#options.model),
      upstream: this.upstream,
      admissions: this.#takeAdmissions() ?? [],
    };
  }

  async #ask({ eventId }: ClientEvent, bridge: Bridge): Promise<void> {
    if (bridge.isClosing) throw failure('shutting_down');
    const call = this.requested(this.#options.model);
    await this.caller.requireKey();
    const admissions = this.#takeAdmissions() ?? (await orEnd(this.caller.admit(call)));
    this.responses.asked({ call, upstream: this.upstream, admissions, eventId });
  }

  protected note(event: UpstreamEvent): boolean {
    const { type, response } = event;
    if (type === 'response.done') {
      this.responses.ended(responseIdOf(event), response?.usage, errorInMessage(event));
      return true;
    }
    if (type === 'error') return this.#refused(event);
    return this.#transcriptions.saw(event);
  }

  /** @returns whether the event is about a response that was asked for */
  #refused(event: UpstreamEvent): boolean {
    const eventId = eventIdOf(event);
    const isAboutSound =
      eventId !== undefined || /input.audio.buffer/.test(`${event.error?.code} ${event.error?.message}`);
    if (isAboutSound && this.#transcriptions.refused(eventId)) return false;
    return this.responses.refused(eventId);
  }

  /**
   * Checks the models that an event names, and gives them the upstream's names.
   * @throws GatewayError `invalid_value`, `model_not_allowed`
   */
  #checkModels({ rawBody, fields }: ClientEvent): readonly Edit[] {
    const { upstream, caller } = this;
    const { model, calledModel } = this.#options;
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
      const range = fields.get(`session.${path}`);
      const transcriptionModel = shortValue(rawBody, range);
      if (!range || typeof transcriptionModel !== 'string') continue;
      checkModelName(transcriptionModel);
      requireAllowedModel(caller.principal, transcriptionModel);
      this.deps.storedObjects.models.requireOpen(transcriptionModel, caller.principal.userId, [upstream]);
      this.#transcriptions.named(transcriptionModel);
      edits.push({ ...range, text: JSON.stringify(upstreamModelName(upstream, transcriptionModel)) });
    }
    return edits;
  }
}
