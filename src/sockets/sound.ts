import { isObject } from '../proxy/answer-body.ts';
import type { ClientEvent } from './events.ts';

/** One token for 100 ms of what a user says, and for 50 ms of what a model does (OpenAI's guide "Managing costs" of the Realtime API). */
export const tokensPerSecond = { heard: 10, spoken: 20 } as const;

/** 24,000 samples of 16 bits, which is also what upstreams take and send where a session says nothing. */
export const pcmRate = 48_000;
const g711Rate = 8_000;
/** Formats of G.711, as sessions name them. */
const g711 = /g711|pcmu|pcma/;

/** A field of what may be an object. */
export function fieldOf(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

/** How many bytes a second of sound has in a format, as upstreams name it; `undefined` where it names none. */
export function rateOf(format: unknown): number | undefined {
  const name = String(fieldOf(format, 'type') ?? (typeof format === 'string' ? format : ''));
  if (name === '') return undefined;
  if (g711.test(name)) return g711Rate;
  const rate = fieldOf(format, 'rate');
  return typeof rate === 'number' && rate > 0 ? 2 * rate : pcmRate;
}

/**
 * How many bytes a second of sound has that goes into a session, or comes out of it or of a response; `undefined` where it does not say.
 * @param holder the session or the response, as its upstream shows it
 */
export function soundRate(holder: unknown, direction: 'input' | 'output'): number | undefined {
  const inAudio = fieldOf(fieldOf(fieldOf(holder, 'audio'), direction), 'format');
  return rateOf(inAudio ?? fieldOf(holder, `${direction}_audio_format`));
}

/** With these a client says what its session is to be. */
const sessionUpdates: ReadonlySet<unknown> = new Set(['session.update', 'transcription_session.update']);

/** How long sound is that goes into a session, by its bytes. */
export class InputRate {
  #bytesPerSecond: number = pcmRate;
  /** Whether the client has asked for G.711, and the upstream has not said yet what the session is. */
  #asksForG711 = false;

  /** An event of the client's goes up. */
  sent({ type, rawBody }: Pick<ClientEvent, 'type' | 'rawBody'>): void {
    if (sessionUpdates.has(type)) this.#asksForG711 ||= g711.test(rawBody.toString('latin1'));
  }

  /** The upstream says what the session is. What it does not mention has not changed. */
  configured(session: unknown): void {
    this.#asksForG711 = false;
    this.#bytesPerSecond = soundRate(session, 'input') ?? this.#bytesPerSecond;
  }

  /** How long the sound in an event of the client's is, which has its bytes in `audio`. Seconds. */
  inEvent({ fields }: Pick<ClientEvent, 'fields'>): number {
    const { start = 0, end = 0 } = fields.get('audio') ?? {};
    // without its quotes
    return this.secondsOf(end - start - 2);
  }

  /** @param characters of base64 */
  secondsOf(characters: number): number {
    return decodedLength(characters) / (this.#asksForG711 ? g711Rate : this.#bytesPerSecond);
  }
}

/** How many bytes so many characters of base64 stand for. */
export function decodedLength(characters: number): number {
  return Math.max(0, Math.floor((characters * 3) / 4));
}
