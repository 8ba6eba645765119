import { type BodyShape, bodyShape } from '../http/json/body-shape.ts';
import { outline } from '../http/json/scan.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { Spec } from '../openapi/spec.ts';
import { type Fields, parsed } from '../proxy/answer-body.ts';
import { shortValue } from '../proxy/model-body.ts';
import type { Message } from './bridge.ts';

/** An event of a client's, as far as it is described. */
export interface ClientEvent extends Pick<ApiRequest, 'rawBody' | 'fields' | 'body'> {
  readonly type: unknown;
  readonly eventId: string | undefined;
}

export const anything = {};
export const object = (properties: object) => ({ type: 'object', properties });

/** Where a realtime session names the models that transcribe what users say. */
export const transcriptionFields = ['audio.input.transcription.model', 'input_audio_transcription.model'];
const transcription = object({ model: anything });
/** The described parts of a realtime session. */
export const realtimeSession = {
  model: anything,
  audio: object({ input: object({ transcription }) }),
  input_audio_transcription: transcription,
};

/** The fields that limit the output of a response, of the API and of its beta. */
export const limitNames = ['max_output_tokens', 'max_response_output_tokens'] as const;

/** What every event has. */
const common = { type: anything, event_id: anything };

/** The described parts of the events of `/realtime`. */
export function realtimeShape(spec: Spec): BodyShape {
  const response = object(Object.fromEntries(limitNames.map((name) => [name, anything])));
  const item = object({ content: { type: 'array', items: object({ type: anything }) } });
  return bodyShape(spec, object({ ...common, session: object(realtimeSession), response, audio: anything, item }));
}

/** The described parts of the events of `/responses`: an event that asks for a response is the body of such a call. */
export function responsesShape(spec: Spec): BodyShape {
  const shape = bodyShape(spec, { $ref: '#/components/schemas/ResponseRequest' });
  const { properties, folded } = bodyShape(spec, object({ ...common, response: anything }));
  return {
    ...shape,
    properties: new Map([...shape.properties, ...properties]),
    folded: new Map([...shape.folded, ...folded]),
  };
}

const openBrace = 0x7b;
/** What an object may go on with: a key, or its end. */
const afterBrace: ReadonlySet<number | undefined> = new Set([0x22, 0x7d]);
/** White space, byte order marks, and the zeros of UTF-16 and UTF-32, which some readers of JSON take. */
const isPadding = new Uint8Array(256);
for (const byte of [0x20, 0x09, 0x0a, 0x0d, 0x00, 0xef, 0xbb, 0xbf, 0xfe, 0xff]) isPadding[byte] = 1;

/** Where the next byte is that is no padding. A message may be all padding. */
function afterPadding(data: Buffer, from: number): number {
  let at = from;
  while (at < data.length && isPadding[data[at] as number] === 1) at += 1;
  return at;
}

/** Whether bytes begin like an object of JSON, in whatever encoding: an upstream may read them as one. */
function beginsLikeJson(data: Buffer): boolean {
  const start = afterPadding(data, 0);
  return data[start] === openBrace && afterBrace.has(data[afterPadding(data, start + 1)]);
}

/**
 * Reads an event of a client's; `undefined` for bytes that are none. A text that is no JSON is refused: what the gateway cannot read, the
 * upstream must not read either.
 * @throws GatewayError `invalid_json`, `duplicate_parameter` and so on, as for a body of a call
 */
export async function readClientEvent({ data, isBinary }: Message, shape: BodyShape): Promise<ClientEvent | undefined> {
  if (isBinary && !beginsLikeJson(data)) return undefined;
  const { value, fields } = await outline(data, shape);
  const eventId = shortValue(data, fields.get('event_id'));
  return {
    rawBody: data,
    fields,
    body: value,
    type: shortValue(data, fields.get('type')),
    eventId: typeof eventId === 'string' ? eventId : undefined,
  };
}

/** An event of an upstream's. Nothing in it is certain. */
export interface UpstreamEvent extends Fields {
  readonly type: string;
  readonly delta?: unknown;
  readonly response_id?: unknown;
  /** Of sound, the length of its event. */
  readonly soundBytes?: number;
  readonly response?: {
    readonly id?: unknown;
    readonly model?: unknown;
    readonly conversation_id?: unknown;
    readonly usage?: unknown;
    readonly output?: unknown;
  };
  readonly error?: { readonly event_id?: unknown; readonly code?: unknown; readonly message?: unknown } | null;
}

/** A part of what is to be translated, as it goes up. */
export const translatedSound = 'session.input_audio_buffer.append';

/** Parts of a translation, as they come down. */
export const translatedParts: ReadonlySet<string> = new Set([
  'session.output_audio.delta',
  'session.output_transcript.delta',
  'session.input_transcript.delta',
]);

/** With these an upstream says what its session is. */
export const sessionEvents: ReadonlySet<string> = new Set([
  'session.created',
  'session.updated',
  'transcription_session.created',
  'transcription_session.updated',
]);

/** What the events have in them that say something about a response, a transcription, or what is transcribed. */
const marks = [
  '"response.',
  '"error"',
  'input_audio_transcription.',
  '"input_audio_buffer.',
  '"conversation.item.added"',
  '"conversation.item.created"',
  '"session.',
  '"transcription_session.',
].map((mark) => Buffer.from(mark));
/** Audio says nothing about a response but that it goes on, and is most of what passes. */
const audioDelta = /"type"\s*:\s*"response\.(?:output_)?audio\.delta"/;
/** How early an event names its type. Bytes. */
const headLength = 256;
/** Takes a byte order mark away, and reads on after bytes that are no UTF-8, as clients do with binary messages. */
const utf8 = new TextDecoder();

/** What an event of an upstream's says about what is under way, be it text or bytes; `undefined` where it says nothing. */
export function readUpstreamEvent({ data, isBinary }: Message): UpstreamEvent | undefined {
  if (isBinary && !beginsLikeJson(data)) return undefined;
  if (audioDelta.test(data.toString('latin1', 0, headLength))) {
    return { type: 'response.output_audio.delta', soundBytes: data.length };
  }
  if (!marks.some((mark) => data.includes(mark))) return undefined;
  const value = parsed(utf8.decode(data));
  return typeof value?.type === 'string' ? (value as UpstreamEvent) : undefined;
}

/** The id of the response that an event has. */
export function responseIdOf({ response }: UpstreamEvent): string | undefined {
  return typeof response?.id === 'string' ? response.id : undefined;
}
