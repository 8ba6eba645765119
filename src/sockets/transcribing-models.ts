import { type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { fieldOf } from './sound.ts';

/** How many are remembered of what would grow with a session. */
const mostRemembered = 100;
/** The date of a snapshot: upstreams that are asked for `gpt-4o-transcribe` may answer with it. */
export const snapshot = /-\d{4}-\d{2}-\d{2}$/;

/** The models that may transcribe what users say in a session, by the names that callers use. Which one does, the upstream says and not the client. */
export class TranscribingModels {
  readonly #upstream: Upstream;
  /** The names that callers use, by the upstream's. */
  readonly #names = new Map<string, string>();
  #current: string | undefined;
  /** Those that the present event of the client's names, which has not gone up. */
  #proposed: readonly string[] = [];
  /** Those that the client has asked for, and that the upstream has not said to have. */
  readonly #asked: string[] = [];

  /** @param current the one that the session was made with, if any */
  constructor(upstream: Upstream, current: string | undefined) {
    this.#upstream = upstream;
    this.#current = current;
    if (current !== undefined) this.#rememberName(current);
  }

  /** The one that transcribes what comes now; `undefined` where nothing is transcribed, or the upstream does not say. */
  get current(): string | undefined {
    return this.#current;
  }

  /** Those that may transcribe what goes up now: until the upstream says which it has, also those that it was asked for. */
  get all(): readonly string[] {
    const models = [...this.#asked, ...this.#proposed];
    return [...new Set(this.#current === undefined ? models : [this.#current, ...models])];
  }

  /** The present event of the client's names these, if any. */
  propose(models: readonly string[]): void {
    for (const model of models) this.#rememberName(model);
    this.#proposed = models;
  }

  /** That event goes up. */
  ask(): void {
    this.#asked.push(...this.#proposed);
    this.#asked.splice(0, this.#asked.length - mostRemembered);
    this.#proposed = [];
  }

  /** That event is refused. */
  withdraw(): void {
    this.#proposed = [];
  }

  /** The upstream says what the session is. What it does not mention has not changed. */
  configured(session: unknown): void {
    const inInput = fieldOf(fieldOf(fieldOf(session, 'audio'), 'input'), 'transcription');
    const transcriber = inInput === undefined ? fieldOf(session, 'input_audio_transcription') : inInput;
    if (transcriber === undefined) return;
    const model = fieldOf(transcriber, 'model');
    this.#current = typeof model === 'string' && model !== '' ? this.#calledName(model) : undefined;
    // upstreams answer in the order of what they are sent
    if (this.#current !== undefined) this.#asked.splice(0, this.#asked.indexOf(this.#current) + 1);
  }

  #rememberName(model: string): void {
    remember(this.#names, upstreamModelName(this.#upstream, model), model);
  }

  /** The name that callers use for a model of the upstream's. */
  #calledName(model: string): string {
    const { serves, aliases } = this.#upstream;
    const known = this.#names.get(model) ?? this.#names.get(model.replace(snapshot, ''));
    if (known !== undefined) return known;
    if (serves(model)) return model;
    return Object.keys(aliases).find((alias) => aliases[alias] === model) ?? model;
  }
}

/** Keeps a value, and forgets the oldest of too many. */
export function remember<Key, Value>(values: Map<Key, Value>, key: Key, value: Value): void {
  values.delete(key);
  values.set(key, value);
  const [oldest] = values.keys();
  if (values.size > mostRemembered) values.delete(oldest as Key);
}
