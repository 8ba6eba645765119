import type { Admission, RequestedCall } from '../proxy/admission.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import type { Upstream } from '../proxy/upstream.ts';
import type { SocketCaller } from './caller.ts';
import { type ClientEvent, sessionEvents, type UpstreamEvent } from './events.ts';
import { type AskedResponse, MeteredResponses } from './metered-responses.ts';
import { fieldOf, InputRate, tokensPerSecond } from './sound.ts';
import { SoundAdmission } from './sound-admission.ts';
import { remember, TranscribingModels } from './transcribing-models.ts';

const transcription = 'conversation.item.input_audio_transcription.';
/** A part of what a user has said, as it goes up. */
export const soundEvent = 'input_audio_buffer.append';

/** How many parts of what was sent are remembered. */
const mostRemembered = 100;

/** Sound that has gone up, and that the upstream has not named yet. */
interface SentSound {
  /** By the format that the session had when it went up. */
  seconds: number;
  /** How many of these seconds each `clear` is about that the upstream has not confirmed yet. */
  clears: number[];
  /** The `event_id` of the client's event. */
  readonly eventId?: string | undefined;
}

const silence = (): SentSound => ({ seconds: 0, clears: [] });
const sum = (amounts: readonly number[]) => amounts.reduce((total, amount) => total + amount, 0);

/** Sound of an item that the upstream has shown, and may still transcribe. */
interface DueSound {
  readonly seconds: number;
  /** `undefined` for what is transcribed by whichever model the session has then. */
  readonly model: string | undefined;
}

/** How long some sound was, by offsets that the upstream has told. Milliseconds. */
interface HeardSpeech {
  readonly itemId: unknown;
  readonly start: number;
  readonly end?: number;
}

interface TranscriptionsOptions {
  readonly caller: SocketCaller;
  readonly upstream: Upstream;
  /** The model of the session, as the caller named it. */
  readonly sessionModel: string | undefined;
  /** The model that transcribes, as the caller named it, where the session was made with one. */
  readonly model: string | undefined;
  /** What was admitted in advance, for something that begins. */
  readonly takeAdmissions: () => readonly Admission[];
  /** Called when sound becomes a part of the conversation, with its length in seconds. */
  readonly onCommitted: (seconds: number) => void;
}

/**
 * The transcriptions of what users say in one realtime session. Each is work of its own, by a model of its own: it begins when the upstream says that sound is
 * committed, or sends a part of its text, and has a usage record when it has ended. Which model it is, the upstream says and not the client.
 */
export class Transcriptions {
  readonly #options: TranscriptionsOptions;
  readonly #works: MeteredResponses;
  readonly #models: TranscribingModels;
  readonly #rate = new InputRate();
  /** What has gone up since the last commit. */
  #buffered = silence();
  /** The commits of the client that the upstream has not answered. */
  readonly #commits: SentSound[] = [];
  /** The items with sound that the client has made, and that the upstream has not shown. */
  readonly #created: SentSound[] = [];
  #speech: HeardSpeech | undefined;
  /** How long the sound of an item is. Seconds. */
  readonly #lengths = new Map<string, number>();
  /** The items that are committed and not transcribed yet. */
  readonly #awaited = new Set<string>();
  readonly #admission: SoundAdmission;
  /** By item. */
  readonly #due = new Map<string, DueSound>();
  /** All the sound that has gone up. Seconds. */
  #written = 0;
  /** How much of it came behind the last speech that the upstream has committed by itself. Seconds. */
  #unheard = 0;

  constructor(deps: RelayDependencies, options: TranscriptionsOptions) {
    this.#options = options;
    this.#works = new MeteredResponses(deps, options.caller.principal, () => this.#work(''));
    this.#models = new TranscribingModels(options.upstream, options.model);
    this.#admission = new SoundAdmission((model, seconds, isFirst) =>
      options.caller.admit(this.#soundOf(model, seconds, isFirst)),
    );
  }

  /** Whether something is committed and not transcribed yet. */
  get isBusy(): boolean {
    return this.#commits.length > 0 || this.#awaited.size > 0;
  }

  /** Whether the sound in an event of the client's is admitted, if it has any. */
  covers(event: ClientEvent): boolean {
    const seconds = this.#lengthIn(event);
    return this.#models.all.every((model) => this.#admission.covers(model, this.#neededOf(model) + seconds));
  }

  /**
   * Has the sound admitted that is in an event of the client's, that it commits, or that a model which it names may transcribe: at the price of each model
   * that may.
   * @param models which it names, and which the client may have transcribe: whether they do, the upstream says. @default none
   * @throws GatewayError where that is refused
   */
  async admit(event: ClientEvent, models: readonly string[] = []): Promise<void> {
    const seconds = this.#lengthIn(event);
    const isCommit = event.type === 'input_audio_buffer.commit';
    this.#models.propose(models);
    if (seconds === 0 && !isCommit && models.length === 0) return;
    try {
      for (const model of this.#models.all) await this.#admission.cover(model, this.#neededOf(model) + seconds);
    } catch (error) {
      this.#models.withdraw();
      this.#trim();
      throw error;
    }
  }

  /** An event of the client's goes up. @returns how long the sound of an item in it is. Seconds */
  sent(event: ClientEvent): number | undefined {
    const { type, eventId } = event;
    const seconds = this.#lengthIn(event);
    this.#rate.sent(event);
    this.#models.ask();
    if (type === soundEvent) {
      this.#buffered.seconds += seconds;
      this.#written += seconds;
    } else if (type === 'input_audio_buffer.clear') {
      const { seconds: buffered, clears } = this.#buffered;
      if (clears.length < mostRemembered) clears.push(buffered - sum(clears));
    } else if (type === 'input_audio_buffer.commit') {
      this.#commits.push({ ...this.#buffered, eventId });
      this.#buffered = silence();
    } else if (hasItemWithSound(event)) {
      this.#created.push({ seconds, clears: [], eventId });
      if (this.#created.length > mostRemembered) this.#created.shift();
      return seconds;
    }
    return undefined;
  }

  /** Notes what an event of the upstream's says. */
  saw(event: UpstreamEvent): void {
    const { type } = event;
    const itemId = String(event.item_id ?? '');
    if (type.startsWith(transcription)) this.#transcribed(event, itemId);
    else if (type === 'input_audio_buffer.committed') this.#committed(itemId);
    else if (type.startsWith('input_audio_buffer.')) this.#heard(event);
    else if (sessionEvents.has(type)) this.#configured(event);
    else if (type === 'conversation.item.added' || type === 'conversation.item.created') this.#shown(event.item);
    this.#trim();
  }

  /**
   * The upstream refuses an event of the client's.
   * @param eventId the `event_id` of that. @default that of the first commit that it has not answered
   * @returns whether it was one with sound
   */
  refused(eventId: string | undefined): boolean {
    const isRefused = (sound: SentSound) => eventId === undefined || sound.eventId === eventId;
    const at = this.#commits.findIndex(isRefused);
    const [commit] = at === -1 ? [] : this.#commits.splice(at, 1);
    // what is not committed is still in the upstream's buffer
    if (commit) {
      this.#buffered.seconds += commit.seconds;
      this.#buffered.clears.unshift(...commit.clears);
    }
    const item = eventId === undefined ? -1 : this.#created.findIndex(isRefused);
    if (item !== -1) this.#created.splice(item, 1);
    this.#trim();
    return commit !== undefined || item !== -1;
  }

  /** The socket has ended: what has begun is charged by an estimate. */
  endAll(ending: Parameters<MeteredResponses['endAll']>[0]): void {
    this.#works.endAll(ending);
    this.#admission.trim(() => 0);
  }

  /** How much of the sound that has gone up this model may still transcribe. Seconds. */
  #neededOf(model: string): number {
    const mayBegin = this.#models.all.includes(model);
    const waiting = [this.#buffered, ...this.#commits, ...this.#created].map(({ seconds }) => seconds);
    const due = [...this.#due.values()].filter((sound) => sound.model === model || (mayBegin && !sound.model));
    const seconds = sum(due.map((sound) => sound.seconds)) + (mayBegin ? sum(waiting) + this.#unheard : 0);
    // what was added and taken away again leaves nothing, also in binary fractions
    return Math.round(seconds * 1_000) / 1_000;
  }

  #trim(): void {
    this.#admission.trim((model) => this.#neededOf(model));
  }

  /** How long the sound in an event of the client's is. Seconds. */
  #lengthIn(event: ClientEvent): number {
    if (event.type === soundEvent) return this.#rate.inEvent(event);
    return hasItemWithSound(event) ? this.#rate.secondsOf(event.rawBody.length) : 0;
  }

  #configured({ session }: UpstreamEvent): void {
    this.#rate.configured(session);
    this.#models.configured(session);
  }

  /** Notes when somebody spoke. Of what does not pass the gateway, and of what an upstream commits by itself, nothing else says how long it is. */
  #heard({ type, item_id: itemId, audio_start_ms: start, audio_end_ms: end }: UpstreamEvent): void {
    if (type === 'input_audio_buffer.cleared') {
      this.#speech = undefined;
      // upstreams answer in the order of what they are sent: a commit that is not answered came behind it
      const sound = this.#commits[0] ?? this.#buffered;
      sound.seconds -= sound.clears.shift() ?? 0;
      this.#unheard = 0;
    }
    if (typeof start === 'number') this.#speech = { itemId, start };
    const { itemId: spoken, start: from = 0 } = this.#speech ?? {};
    if (typeof end === 'number' && spoken === itemId) this.#speech = { itemId, start: from, end };
  }

  #committed(itemId: string): void {
    const seconds = this.#takeLength(itemId);
    remember(this.#lengths, itemId, seconds);
    this.#options.onCommitted(seconds);
    if (this.#works.has(itemId)) this.#works.estimated(itemId, this.#callOf(itemId));
    else if (this.#models.current === undefined) return;
    else this.#works.began(itemId, this.#work(itemId));
    this.#awaited.add(itemId);
    this.#due.set(itemId, { seconds, model: this.#models.current });
  }

  /** How long the sound is that is committed. Seconds. */
  #takeLength(itemId: string): number {
    const { itemId: spoken, start = 0, end } = this.#speech ?? {};
    const isHeard = end !== undefined && spoken === itemId;
    const commit = isHeard ? undefined : this.#commits.shift();
    if (commit) return commit.seconds;
    const rest = this.#buffered.seconds;
    this.#buffered = silence();
    const behind = isHeard ? Math.max(0, this.#written - end / 1_000) : 0;
    this.#unheard = Math.min(behind, this.#unheard + rest);
    return isHeard ? Math.max(0, end - start) / 1_000 : rest;
  }

  /** The client has made an item, or the upstream has made one of what was committed. */
  #shown(item: unknown): void {
    const id = fieldOf(item, 'id');
    if (typeof id !== 'string' || this.#lengths.has(id) || !hasSound(item)) return;
    const created = this.#created.shift();
    if (!created) return;
    remember(this.#lengths, id, created.seconds);
    remember(this.#due, id, { seconds: created.seconds, model: undefined });
  }

  #transcribed({ type, delta, text, transcript, usage }: UpstreamEvent, itemId: string): void {
    const step = type.slice(transcription.length);
    if (step === 'failed') {
      this.#works.dropped(itemId);
      this.#awaited.delete(itemId);
      this.#due.delete(itemId);
      return;
    }
    // an upstream may transcribe what a client has made an item of, and what is not committed yet
    if (!this.#works.has(itemId)) this.#works.began(itemId, this.#work(itemId));
    if (step === 'completed') {
      this.#works.ended(itemId, usage, undefined, transcript);
      this.#awaited.delete(itemId);
      this.#due.delete(itemId);
    } else this.#works.wrote(itemId, delta ?? text);
  }

  #work(itemId: string): AskedResponse {
    const { upstream, takeAdmissions } = this.#options;
    return { call: this.#callOf(itemId), upstream, admissions: takeAdmissions() };
  }

  /** A transcription, with the estimate of what it uses. */
  #callOf(itemId: string): RequestedCall {
    const length = this.#lengths.get(itemId) ?? this.#buffered.seconds;
    return this.#soundOf(this.#models.current ?? this.#options.sessionModel, Math.round(length * 1_000) / 1_000);
  }

  /** Some sound that a model transcribes. @param isFirst whether its text is expected too, which all the sound of a transcription shares */
  #soundOf(model: string | undefined, seconds: number, isFirst = true): RequestedCall {
    return {
      info: this.#options.caller.call(model),
      estimatedTokens: Math.ceil(seconds * tokensPerSecond.heard),
      output: { choices: 1, maxTokens: isFirst ? undefined : 0, seconds, counts: 'nothing' },
    };
  }
}

/** Whether an item has sound of a user in it. */
function hasSound(item: unknown): boolean {
  const content = fieldOf(item, 'content');
  return Array.isArray(content) && content.some((part) => fieldOf(part, 'type') === 'input_audio');
}

/** Whether an event of the client's makes such an item. */
function hasItemWithSound({ type, body }: ClientEvent): boolean {
  return type === 'conversation.item.create' && hasSound(fieldOf(body, 'item'));
}
