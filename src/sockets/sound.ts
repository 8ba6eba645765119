import { isObject } from '../proxy/answer-result.ts';

/** One token for 100 ms of what a user says, and for 50 ms of what a model does (OpenAI's guide "Managing costs" of the Realtime API). */
export const tokensPerSecond = { heard: 10, spoken: 20 } as const;

/** 24,000 samples of 16 bits, which is also what upstreams take and send where a session says nothing. */
export const pcmRate = 48_000;
export const g711Rate = 8_000;
/** Formats of G.711, as sessions name them. */
export const g711 = /g711|pcmu|pcma/;

/** A field of what may be an object. Pure. */
export function fieldOf(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

/** How many bytes a second of sound has in a format, as a session names it; `undefined` where it names none. Pure. */
function rateOf(format: unknown): number | undefined {
  const name = String(fieldOf(format, 'type') ?? (typeof format === 'string' ? format : ''));
  if (name === '') return undefined;
  if (g711.test(name)) return g711Rate;
  const rate = fieldOf(format, 'rate');
  return typeof rate === 'number' && rate > 0 ? 2 * rate : pcmRate;
}

/**
 * How many bytes a second of sound has that goes into a session, or comes out of it or of a response; `undefined` where it does not say. Pure.
 * @param holder the session or the response, as its upstream shows it
 */
export function soundRate(holder: unknown, direction: 'input' | 'output'): number | undefined {
  const inAudio = fieldOf(fieldOf(fieldOf(holder, 'audio'), direction), 'format');
  return rateOf(inAudio ?? fieldOf(holder, `${direction}_audio_format`));
}

/** How many bytes so many characters of base64 stand for. Pure. */
export function decodedLength(characters: number): number {
  return Math.max(0, Math.floor((characters * 3) / 4));
}
