import type { OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import {
  beginsAsEvents,
  type Fields,
  hasLeast,
  isObject,
  type LeastResult,
  type PeekLimits,
  parsedValue,
  peek,
} from './answer-body.ts';
import type { Endpoint } from './endpoint.ts';
import { betweenEvents, dataOf } from './event-framer.ts';
import { isEncoded, isEventStream } from './headers.ts';

/** An error that an answer with a status of 2xx holds in place of its result. */
export interface ErrorInside {
  /** The status that the error names, or 502: what the answer should have had. */
  readonly status: number;
  /** Whether it says that the request is wrong, so that the upstream is not at fault. */
  readonly blamesRequest: boolean;
}

/** What says whether a response is a success. */
export interface ResponseStatus {
  readonly status: number;
  /** The error that an answer of 2xx is: of a whole body, or of a stream's first event. */
  readonly errorInside?: ErrorInside | undefined;
}

/** Whether an answer is no error. */
export function isSuccess({ status, errorInside }: ResponseStatus): boolean {
  return status < 300 && errorInside === undefined;
}

/** A response with what its beginning says. */
export interface InspectedResponse extends OutboundResponse, ResponseStatus {
  /** Whether its beginning has not said in time whether it is an error, or nothing at all; `undefined` where nothing was read of it. */
  readonly isUndecided?: boolean | undefined;
}

/** What an answer may be, and what it has at least. */
interface AnswerShape {
  readonly answers: Endpoint['answers'];
  readonly result: LeastResult;
}

interface Expected extends AnswerShape, Omit<PeekLimits, 'maxWait'> {
  readonly stream: boolean;
}

/** What an answer of 2xx is: an error, one that says nothing, or (`null`) a success. */
type Verdict = ErrorInside | 'nothing' | null;

/** The largest answer that is held until it is whole. Bytes. */
export const holdLimit = 256 * 1024;

/** Whether a body is read as JSON. A speaker might say what looks like it, so other answers must be labelled. */
export function holdsJson(
  answers: Endpoint['answers'] | 'file',
  { headers }: Pick<OutboundResponse, 'headers'>,
): boolean {
  return answers === undefined || /^application\/(?:[\w.-]+\+)?json\b/i.test(String(headers['content-type']));
}

/**
 * How long the beginning of an answer is waited for before it is sent down as it comes: comments that keep a connection alive are held
 * for as long. Milliseconds.
 */
const inspectionTimeout = 5_000;

/**
 * Reads the beginning of an answer of 2xx, nothing of which has been sent to the client: whether its first events, or the whole of a body that
 * is held until it is whole, are an error. Rejects with the OutboundError `invalid_response` where they say nothing.
 */
export async function inspectResponse(response: OutboundResponse, expected: Expected): Promise<InspectedResponse> {
  const { status, statusText, headers, data } = response;
  if (status >= 300 || isEncoded(headers)) return response;
  const { answers, result, deadline, betweenChunks } = expected;
  const isStream = isEventStream(headers);
  const mayBeJson = holdsJson(answers, response);
  let isEvents = isStream || (expected.stream ? undefined : false);

  function decide(start: ResponseBody): Verdict | undefined {
    isEvents ??= beginsAsEvents(start.bytes());
    if (isEvents) return judgeEvents(start.bytes(), start.isWhole, result);
    if (start.isWhole) return judgeBody(start.bytes(), response, expected);
    // such a body is sent as it comes
    const isSent = mayBeJson ? start.length > holdLimit : start.length > 0;
    return isEvents === false && isSent ? null : undefined;
  }

  // of what is no JSON, the first byte is enough: nothing could be sent before
  const maxWait = isStream || expected.stream || mayBeJson ? { maxWait: inspectionTimeout } : {};
  const verdict = await peek(data, decide, { deadline, betweenChunks, ...maxWait });
  if (verdict === 'nothing') {
    data.destroy();
    throw new OutboundError('invalid_response', 'the answer has no result');
  }
  const inspected = { status, statusText, headers, data, isUndecided: verdict === undefined };
  return verdict ? { ...inspected, errorInside: verdict } : inspected;
}

/** The largest refusal that is looked at. Bytes. */
const refusalLimit = 16 * 1024;
const usageField = /stream_options|include_usage/;

/**
 * Whether an answer may refuse `stream_options`, and names it or not; `undefined` where it does not refuse what was asked. It is looked at, and can
 * still be sent on.
 */
export async function usageRefusal(
  { status: ownStatus, errorInside, headers, data }: InspectedResponse,
  limits: Omit<PeekLimits, 'maxWait'>,
): Promise<'named' | 'unnamed' | undefined> {
  const status = errorInside?.status ?? ownStatus;
  // what was asked is refused, and not who asks or how often
  if (status !== 400 && status !== 422) return undefined;
  if (isEncoded(headers)) return 'unnamed';
  const decide = (start: ResponseBody) =>
    start.isWhole || start.length > refusalLimit
      ? usageField.test(start.bytes().toString('latin1', 0, refusalLimit))
      : undefined;
  return (await peek(data, decide, { ...limits, maxWait: inspectionTimeout })) ? 'named' : 'unnamed';
}

/** What is not about the upstream: an invalid request, one that is too large, one that cannot be processed. */
const requestStatuses: ReadonlySet<number> = new Set([400, 413, 422]);

/** The codes of OpenAI's for a request that is invalid, too long or against its rules; most are about an image in it. */
const requestCodes: ReadonlySet<unknown> = new Set([
  'invalid_prompt',
  'context_length_exceeded',
  'content_filter',
  'content_policy_violation',
  'invalid_image',
  'invalid_image_format',
  'invalid_base64_image',
  'invalid_image_url',
  'invalid_image_mode',
  'image_too_large',
  'image_too_small',
  'image_parse_error',
  'image_content_policy_violation',
  'image_file_too_large',
  'image_file_not_found',
  'unsupported_image_media_type',
  'empty_image_file',
  'failed_to_download_image',
]);

/** What has the type of an invalid request too, and is about the operator's account at the upstream. */
const accountCodes: ReadonlySet<unknown> = new Set([
  'invalid_api_key',
  'account_deactivated',
  'billing_hard_limit_reached',
]);

/** The statuses of errors that are named by their type alone, as those of Anthropic's API in a stream are (its API reference, "Errors"). */
const typeStatuses: ReadonlyMap<unknown, number> = new Map([
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['timeout_error', 504],
  ['overloaded_error', 529],
]);

function errorInside(error: unknown): ErrorInside {
  const { code, type, status, status_code: statusCode } = isObject(error) ? error : ({} as Fields);
  const isStatus = (number: number): boolean => number >= 400 && number <= 599;
  const named = [code, status, statusCode].map(Number).find(isStatus) ?? typeStatuses.get(type);
  if (named !== undefined) return { status: named, blamesRequest: requestStatuses.has(named) };
  const blamesRequest = requestCodes.has(code) || (type === 'invalid_request_error' && !accountCodes.has(code));
  return { status: blamesRequest ? 400 : 502, blamesRequest };
}

/** Where the answers of the endpoints have their results. */
const resultFields: readonly string[] = ['choices', 'data', 'output', 'results', 'text'];
/** Where an answer tells of its error, or of itself. */
const otherFields: ReadonlySet<string> = new Set(['error', 'errors', 'detail', 'details', 'meta', 'metadata']);

/** Where an answer may have its result. @param result what is known of it */
function placesOf(answer: Fields, { members }: LeastResult): readonly string[] {
  return members ? resultFields : Object.keys(answer).filter((name) => !otherFields.has(name));
}

/** Whether an answer has a result beside its error. */
function hasResult(answer: Fields, places: readonly string[]): boolean {
  const isText = (name: string) => resultFields.includes(name) && typeof answer[name] === 'string';
  const isResult = (name: string) => isText(name) || Array.isArray(answer[name]);
  return places.some((name) => isResult(name) && (answer[name] as string | unknown[]).length > 0);
}

/** The error of a choice that ended in one. */
function errorOfChoice({ choices }: Fields): ErrorInside | undefined {
  if (!Array.isArray(choices)) return undefined;
  const failed = choices.find((choice) => isObject(choice) && choice.finish_reason === 'error');
  return failed === undefined ? undefined : errorInside(failed.error);
}

/** What providers write as a code where nothing is wrong. */
const successCodes: ReadonlySet<unknown> = new Set([undefined, null, '', 0, 200, '0', '200']);

/** What MiniMax's codes mean where it is not at fault: too many requests, an input that it refuses, a wrong parameter. */
const miniMaxStatuses: ReadonlyMap<unknown, number> = new Map([
  [1002, 429],
  [1026, 400],
  [2013, 400],
]);

/**
 * The error of an answer without a result, in the words of providers that do not call it one: MiniMax's status, or a code with a message. An
 * object in the place of a result may be one.
 */
function unnamedError(answer: Fields, places: readonly string[]): ErrorInside | undefined {
  const { code, message, msg, base_resp: status } = answer;
  if (isObject(status) && !successCodes.has(status.status_code)) {
    return errorInside({ status: miniMaxStatuses.get(status.status_code) });
  }
  if (successCodes.has(code) || places.some((name) => isObject(answer[name]))) return undefined;
  const said = message ?? msg;
  return typeof said === 'string' && said !== '' ? errorInside(answer) : undefined;
}

/** @param result what its endpoint answers at least; `undefined` for an event: clients raise on any with an error, whatever stands beside it */
function errorOf(value: unknown, result?: LeastResult): ErrorInside | undefined {
  if (!isObject(value)) return undefined;
  const places = result && placesOf(value, result);
  const { error, type, object, status, response } = value;
  if (error && (!places || status === 'failed' || !hasResult(value, places))) return errorInside(error);
  if (type === 'error' || object === 'error') return errorInside(value);
  if (type === 'response.failed') return errorInside(isObject(response) ? response.error : undefined);
  if (object === 'response' && status === 'failed') return errorInside(undefined);
  return errorOfChoice(value) ?? (!places || hasResult(value, places) ? undefined : unnamedError(value, places));
}

/** The error of a message of a WebSocket, which may have a status beside it; `undefined` where it is none. */
export function errorInMessage(message: Fields): ErrorInside | undefined {
  const { type, status, error, response } = message;
  if (type === 'response.done' && isObject(response) && response.status === 'failed') {
    return errorInside(isObject(response.status_details) ? response.status_details.error : undefined);
  }
  return errorOf(isObject(error) ? { ...message, error: { status, ...error } } : message);
}

/**
 * Every form of an error has one of these; most answers have none, and need not be parsed. Without the quote before them, which is the most
 * frequent byte of JSON, a text of 200 KB is searched in 0.13 ms in place of 0.35.
 */
const markWords = ['error', 'failed', 'code', 'base_resp'];
const marks = markWords.map((word) => Buffer.from(`${word}"`));
const anyMark = new RegExp(`"(?:response\\.)?(?:${markWords.join('|')})"`);
/** A response without an error has `"error": null`. */
const nullErrors = /"error"\s*:\s*null/g;

function holdsMark(bytes: Buffer): boolean {
  return marks.some((mark) => bytes.includes(mark)) && anyMark.test(bytes.toString('latin1').replace(nullErrors, ''));
}

/** JSON in which each byte is read as one character: what is beyond ASCII occurs only inside strings. `undefined` where it is none. */
const parsedBytes = (bytes: Buffer): unknown => parsedValue(bytes.toString('latin1'));

/** A silent recording has an empty transcript. */
function mayBeEmpty({ headers }: Pick<OutboundResponse, 'headers'>, answers: Endpoint['answers']): boolean {
  return answers === 'text' && /^text\//i.test(String(headers['content-type']));
}

/** What a whole body is. */
export function judgeBody(
  body: Buffer,
  response: Pick<OutboundResponse, 'headers'>,
  { answers, result }: AnswerShape,
): Verdict {
  if (!holdsJson(answers, response)) return body.length > 0 || mayBeEmpty(response, answers) ? null : 'nothing';
  const value = parsedBytes(body);
  const error = errorOf(value, result);
  if (error) return error;
  if (hasLeast(value, result)) return null;
  // bytes and texts may be labelled as JSON, or be a string of it
  const isOther = value === undefined ? answers !== undefined : answers === 'text' && typeof value === 'string';
  return isOther && body.length > 0 ? null : 'nothing';
}

/**
 * What each event that is an error has in it. It is looked for in every chunk of a stream, in its text: that takes half as long as in its bytes,
 * 0.14 µs in place of 0.25 for 300 of them.
 */
export const errorWord = /error|response\.failed/;
const errorField = /^event: ?error[\r\n]/m;
const dataLine = /(?:^|[\r\n])data:/;
/** A JSON object in the place of an event, alone or behind the `error:` of llama.cpp before September 2025. */
const unframedJson = /^\s*(error: ?)?(\{[\s\S]*\})\s*$/;

/** A server-sent event, and the error that it is. */
interface ReadEvent {
  /** Its bytes; of an error that is in no event, so that clients pass over it, the event that it should have been. */
  readonly event: Buffer;
  readonly error?: ErrorInside | undefined;
}

/** Reads a server-sent event, or what stands in the place of one. */
export function readEvent(bytes: Buffer): ReadEvent {
  if (!errorWord.test(bytes.toString('latin1'))) return { event: bytes };
  const text = bytes.toString();
  const [, field, json = ''] = dataLine.test(text) ? [] : (unframedJson.exec(text) ?? []);
  const unframed = parsedValue(json);
  const error = field === undefined ? isObject(unframed) && unframed.error : unframed;
  if (error) return { event: Buffer.from(`data: ${JSON.stringify({ error })}\n\n`), error: errorInside(error) };
  const isNamed = errorField.test(text);
  if (!isNamed && !holdsMark(bytes)) return { event: bytes };
  const value = parsedValue(dataOf(text));
  return { event: bytes, error: errorOf(value) ?? (isNamed ? errorInside(value) : undefined) };
}

/** How much is looked at for the first event that says something. Bytes. */
const eventLimit = 16 * 1024;
const leadingComments = /^(?::[^\r\n]*(?:\r\n|\n|\r))*/;

const doneEvent = /(?:^|[\r\n])data: ?\[DONE\]/;

/** Whether an event is the last one of a stream of OpenAI's. */
export function isDoneEvent(event: Buffer): boolean {
  return event.length < 64 && doneEvent.test(event.toString('latin1'));
}

/**
 * What the first event says that says something, with which others may come: comments, pings, and chunks without choices, such as Azure's about the
 * prompt. `undefined` while it has not come.
 * @param isWhole whether no more comes
 */
function judgeEvents(bytes: Buffer, isWhole: boolean, { inEvent }: LeastResult): Verdict | undefined {
  const text = bytes.toString('latin1', 0, eventLimit);
  let from = 0;
  for (const { index, 0: end } of text.matchAll(betweenEvents)) {
    const [comments = ''] = leadingComments.exec(text.slice(from, index)) ?? [];
    const event = bytes.subarray(from + comments.length, index + end.length);
    const { error } = readEvent(event);
    if (error) return error;
    if (inEvent.test(text.slice(from, index))) return null;
    if (isDoneEvent(event)) return 'nothing';
    from = index + end.length;
  }
  const rest = isWhole ? bytes.subarray(from) : undefined;
  if (rest) return readEvent(rest).error ?? (inEvent.test(rest.toString('latin1')) ? null : 'nothing');
  return bytes.length > eventLimit ? null : undefined;
}
