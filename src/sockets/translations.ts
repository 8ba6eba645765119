import { GatewayError, refuse } from '../errors.ts';
import type { CallEnding } from '../options/options.ts';
import type { Admission, RequestedCall } from '../proxy/admission.ts';
import { failure } from '../proxy/failure.ts';
import { splice } from '../proxy/model-body.ts';
import { type Bridge, type Message, SocketEnd } from './bridge.ts';
import { type ClientEvent, sessionEvents, translatedParts, translatedSound, type UpstreamEvent } from './events.ts';
import { type AskedResponse, MeteredResponses } from './metered-responses.ts';
import { MeteredSession, type SessionDependencies } from './session.ts';
import { checkModels, type ModelSessionOptions } from './session-models.ts';
import { decodedLength, InputRate, pcmRate, rateOf, soundRate, tokensPerSecond } from './sound.ts';
import { SoundAdmission, SoundPause } from './sound-admission.ts';
import { TranscribingModels } from './transcribing-models.ts';

/** How much sound, and how much time, one usage record is for. Seconds. */
const partLength = 60;
/** What people say in a second, as text. Speech has some 15 characters a second. Tokens. */
const textPerSecond = 5;

/** A part of a session, with the sound that the session had when it began. */
interface Part {
  /** The translation of its sound. */
  readonly id: string;
  /** Its transcription, by a model of its own. */
  readonly transcription: { readonly id: string; readonly model: string } | undefined;
  readonly startedAt: number;
  readonly heardBefore: number;
  /** Whether the upstream has sent a part of either. */
  isWritten: boolean;
}

/**
 * The sound of one translation session. Nothing in such a session begins or ends, and its upstream does not say what it has used: so it is charged in parts,
 * by what has gone up and come down. Each is a request of its own, the first with the handshake, and its sound is admitted before it goes up.
 */
class TranslatedSound {
  readonly #options: ModelSessionOptions;
  readonly #works: MeteredResponses;
  readonly #transcribing: TranscribingModels;
  readonly #rate = new InputRate();
  /** How many bytes a second of what comes down has, unless an event says otherwise. */
  #spokenRate: number = pcmRate;
  readonly #translated: SoundAdmission;
  readonly #transcribed: SoundAdmission;
  /** What was admitted with the handshake. */
  #admissions: readonly Admission[] | undefined;
  #part: Part | undefined;
  #parts = 0;
  /** All that has gone up, and all that has come down. Seconds. */
  #heard = 0;
  #spoken = 0;
  /** What was not translated when sound last went up. Seconds. */
  #backlog = 0;
  #sentAt = 0;
  /** How much of the longer of the two is charged. Seconds. */
  #charged = 0;
  /** How much of what had gone up before the part began may be transcribed in it. Seconds. */
  #untranscribed = 0;
  /** Whether the upstream has sent anything but errors. */
  #isServed = false;

  constructor(deps: SessionDependencies, options: ModelSessionOptions) {
    const { caller, model, upstream } = options;
    this.#options = options;
    this.#admissions = options.admissions;
    this.#works = new MeteredResponses(deps, caller.principal, () => this.#work(this.#call(model, 0, 0), []));
    this.#transcribing = new TranscribingModels(upstream, options.transcriptionModel);
    this.#translated = new SoundAdmission((_, seconds) => caller.admit(asSound(this.#translation(seconds))));
    this.#transcribed = new SoundAdmission((by, seconds) => caller.admit(asSound(this.#transcription(by, seconds))));
  }

  /** How long the sound in an event of the client's is. Seconds. */
  lengthIn(event: ClientEvent): number {
    return this.#rate.inEvent(event);
  }

  /** Whether so much more sound is admitted. */
  covers(seconds: number): boolean {
    return (
      this.#part !== undefined &&
      this.#translated.covers('', this.#due(seconds)) &&
      this.#transcribing.all.every((model) => this.#transcribed.covers(model, this.#transcribable(seconds)))
    );
  }

  /** Has so much more sound admitted, at the price of each model that it is for. @throws GatewayError where that is refused */
  async admit(seconds: number): Promise<void> {
    if (!this.#part) {
      const admissions = this.#takeAdmissions() ?? (await this.#options.caller.admit(this.#call(this.#model, 0, 0)));
      // its upstream may have begun one meanwhile
      if (this.#part) for (const admission of admissions) admission.dropped();
      else this.#begin(seconds, admissions);
    }
    await this.#translated.cover('', this.#due(seconds));
    for (const model of this.#transcribing.all) await this.#transcribed.cover(model, this.#transcribable(seconds));
  }

  /**
   * An event of the client's may go up that names models which are to transcribe.
   * @throws GatewayError where credits do not last for what they may transcribe at once
   */
  async propose(models: readonly string[]): Promise<void> {
    this.#transcribing.propose(models);
    try {
      for (const model of models) await this.#transcribed.cover(model, this.#untranslated);
    } catch (error) {
      this.#transcribing.withdraw();
      throw error;
    }
  }

  /** An event of the client's goes up. */
  sent(event: ClientEvent): void {
    this.#rate.sent(event);
    this.#transcribing.ask();
    if (event.type !== translatedSound) return;
    // what was admitted for it may have ended since
    this.#current();
    const seconds = this.lengthIn(event);
    this.#backlog = this.#untranslated + seconds;
    this.#sentAt = performance.now();
    this.#heard += seconds;
    this.endIfLong();
  }

  /** Notes what an event of the upstream's says. */
  saw(event: UpstreamEvent): void {
    const { type, delta, session } = event;
    if (type === 'error') return;
    this.#isServed = true;
    if (sessionEvents.has(type)) this.#configured(session);
    else if (type === 'session.output_audio.delta') {
      const seconds = this.#lengthOf(event);
      this.#spoken += seconds;
      this.#wrote(undefined, seconds);
    } else if (translatedParts.has(type)) this.#wrote(delta, 0, type === 'session.input_transcript.delta');
    else if (type === 'session.closed') this.end('complete');
  }

  /** Ends a part that has taken long enough. */
  endIfLong(): void {
    // whether the upstream serves the session is not known until it says something
    if (!this.#part || !this.#isServed) return;
    const { startedAt, heardBefore } = this.#part;
    const isLong = this.#heard - heardBefore >= partLength || performance.now() - startedAt >= partLength * 1_000;
    if (isLong) this.end('complete');
  }

  /** Ends the part that is under way, if any. */
  end(ending: CallEnding): void {
    if (this.#part) this.#close(this.#part, ending);
    for (const sound of [this.#translated, this.#transcribed]) sound.trim(() => 0);
    this.#part = undefined;
    this.#untranscribed = 0;
  }

  /** The session has ended. */
  endAll(ending: CallEnding): void {
    this.end(ending);
    for (const admission of this.#takeAdmissions() ?? []) admission.dropped();
  }

  get #model(): string | undefined {
    return this.#options.model;
  }

  #takeAdmissions(): readonly Admission[] | undefined {
    const admissions = this.#admissions;
    this.#admissions = undefined;
    return admissions;
  }

  /** How much is to be charged when more sound has gone up: of translation, the longer of what goes up and what comes down. Seconds. */
  #due(more: number): number {
    return Math.max(this.#heard + more, this.#spoken) - this.#charged;
  }

  /** How much has gone up and is not translated yet: an upstream takes sound no slower than it is spoken. Seconds. */
  get #untranslated(): number {
    const sinceThen = (performance.now() - this.#sentAt) / 1_000;
    return Math.max(0, Math.min(this.#backlog - sinceThen, this.#heard - this.#spoken));
  }

  /** How much of its sound may be transcribed when more has gone up. Seconds. */
  #transcribable(more: number): number {
    const { heardBefore = this.#heard } = this.#part ?? {};
    return this.#untranscribed + this.#heard - heardBefore + more;
  }

  #configured(session: unknown): void {
    const before = this.#transcribing.current;
    this.#rate.configured(session);
    this.#spokenRate = soundRate(session, 'output') ?? this.#spokenRate;
    this.#transcribing.configured(session);
    if (this.#transcribing.current === before) return;
    this.end('complete');
    if (this.#transcribing.current === undefined) return;
    // what is not translated yet, the new model may transcribe
    this.#untranscribed = this.#untranslated;
    if (this.#untranscribed > 0) this.#current();
  }

  /** How long the sound is that comes down. Seconds. */
  #lengthOf({ delta, format, sample_rate: rate, channels }: UpstreamEvent): number {
    if (typeof delta !== 'string') return 0;
    const isSaid = format !== undefined || rate !== undefined;
    const bytesPerSecond = (isSaid && rateOf({ type: format ?? 'pcm16', rate })) || this.#spokenRate;
    const tracks = typeof channels === 'number' && channels > 1 ? channels : 1;
    return decodedLength(delta.length) / (bytesPerSecond * tracks);
  }

  #wrote(text: unknown, seconds: number, isTranscription = false): void {
    const part = this.#current();
    part.isWritten = true;
    this.#works.wrote((isTranscription ? part.transcription : undefined)?.id ?? part.id, text, seconds);
  }

  /** The part that is under way. What comes when none is has not been asked for, and is charged all the same. */
  #current(): Part {
    return this.#part ?? this.#begin(0, []);
  }

  #begin(seconds: number, admissions: readonly Admission[]): Part {
    this.#parts += 1;
    const id = `part_${this.#parts}`;
    const model = this.#transcribing.current;
    const transcription = model === undefined ? undefined : { id: `${id}_transcribed`, model };
    const part = { id, transcription, startedAt: performance.now(), heardBefore: this.#heard, isWritten: false };
    this.#part = part;
    this.#works.began(id, this.#work(this.#translation(this.#due(seconds)), admissions));
    if (transcription) {
      const call = this.#transcription(transcription.model, this.#transcribable(seconds));
      this.#works.began(transcription.id, this.#work(call, []));
    }
    return part;
  }

  #close({ id, transcription, heardBefore, isWritten }: Part, ending: CallEnding): void {
    const [due, transcribed] = [this.#due(0), this.#transcribable(0)];
    const isUsed = this.#isServed && (due > 0 || transcribed > 0 || isWritten);
    this.#charged += due;
    if (!isUsed) {
      this.#works.dropped(id);
      if (transcription) this.#works.dropped(transcription.id);
      return;
    }
    this.#works.estimated(id, this.#translation(due, this.#heard - heardBefore));
    if (transcription) this.#works.estimated(transcription.id, this.#transcription(transcription.model, transcribed));
    if (ending !== 'complete') {
      this.#works.endAll(ending);
      return;
    }
    this.#works.ended(id, undefined, undefined);
    if (transcription) this.#works.ended(transcription.id, undefined, undefined);
  }

  #work(call: RequestedCall, admissions: readonly Admission[]): AskedResponse {
    return { call, upstream: this.#options.upstream, admissions };
  }

  /** The translation of some sound. @param heard how much of it goes up. Seconds */
  #translation(seconds: number, heard = seconds): RequestedCall {
    return this.#call(this.#model, seconds, tokensPerSecond.spoken + textPerSecond, heard);
  }

  #transcription(model: string, seconds: number): RequestedCall {
    return this.#call(model, seconds, textPerSecond);
  }

  #call(model: string | undefined, length: number, outputPerSecond: number, heard = length): RequestedCall {
    // what was added and taken away again leaves nothing, also in binary fractions
    const seconds = Math.round(length * 1_000) / 1_000;
    return {
      info: this.#options.caller.call(model),
      estimatedTokens: Math.ceil(heard * tokensPerSecond.heard),
      output: { choices: 1, maxTokens: Math.ceil(seconds * outputPerSecond), seconds },
    };
  }
}

/** Sound is a part of a request that was counted. */
function asSound({ output, ...call }: RequestedCall): RequestedCall {
  return { ...call, output: { ...output, counts: 'nothing' } };
}

/** What a client may send. What else an upstream might take, nothing here would measure. */
const clientEvents = ['session.update', translatedSound, 'session.close'];

/** A session that translates what is said while it is said. */
export class TranslationSession extends MeteredSession {
  readonly #options: ModelSessionOptions;
  readonly #sound: TranslatedSound;
  readonly #pause = new SoundPause();
  /** Whether the client has asked for the rest of the translation, and that has not come to its end. */
  #isFlushing = false;

  constructor(deps: SessionDependencies, options: ModelSessionOptions) {
    super(deps, options);
    this.#options = options;
    this.#sound = new TranslatedSound(deps, options);
  }

  override get isBusy(): boolean {
    return this.#isFlushing;
  }

  protected async take(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[] | undefined> {
    const { type, rawBody } = event;
    if (type === translatedSound) {
      if (!(await this.#admitSound(event, bridge))) return undefined;
      this.#sound.sent(event);
      return rawBody;
    }
    if (!clientEvents.includes(String(type))) {
      refuse('invalid_value', 'type', `must be ${clientEvents.join(', ')} in a translation session`);
    }
    const { caller, upstream, deps } = this;
    const { edits, transcribing } = checkModels(event, { caller, upstream, deps }, this.#options);
    await this.#sound.propose(transcribing);
    if (type === 'session.close') this.#isFlushing = true;
    this.#sound.sent(event);
    return splice(rawBody, edits);
  }

  /** They might be sound, which nothing says the length of. */
  protected override async takeBytes(_message: Message, _bridge: Bridge): Promise<void> {
    throw new GatewayError('invalid_json', 'A translation session takes events in JSON alone');
  }

  async #admitSound(event: ClientEvent, bridge: Bridge): Promise<boolean> {
    const seconds = this.#sound.lengthIn(event);
    if (this.#sound.covers(seconds)) return true;
    return this.#pause.admit(async () => {
      await this.requireKey(bridge);
      await this.#sound.admit(seconds);
    });
  }

  protected async note(event: UpstreamEvent, _bridge: Bridge): Promise<void> {
    const { type } = event;
    // nobody has asked for a response, and nothing here would charge for its end
    if (type.startsWith('response.')) throw new SocketEnd(failure('upstream_invalid_response'));
    this.#sound.saw(event);
    if (type === 'session.closed' || type === 'error') this.#isFlushing = false;
  }

  override async check(): Promise<void> {
    this.#sound.endIfLong();
    await super.check();
  }

  override ended(hasLeft: boolean): void {
    super.ended(hasLeft);
    this.#sound.endAll(hasLeft ? 'client_left' : 'upstream_failed');
  }

  protected unasked(): AskedResponse {
    return { call: this.requested(this.#options.model), upstream: this.upstream, admissions: [] };
  }
}
