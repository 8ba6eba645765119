import type { CallDeadline } from '../call-deadline.ts';
import type { Endpoint } from '../endpoint.ts';
import { isEncoded, isEventStream } from '../headers.ts';
import type { ErrorInside, ResponseStatus } from '../routing/retry-policy.ts';
import type { DecodedResponse } from './decoded-body.ts';
import { errorInBody, errorInFirstEvent } from './response/error-inside.ts';
import { type BodyStart, beginsAsEvents, PeekedBody } from './response/peeked-body.ts';
import { holdLimit, holdsJson } from './response/send-body.ts';

/** A response with what its beginning says. */
export interface InspectedResponse extends DecodedResponse, ResponseStatus {
  /** Whether its beginning has not said in time whether it is an error. */
  readonly isUndecided?: boolean;
}

/** What limits the time of an inspection. */
export interface InspectionLimits {
  readonly deadline: CallDeadline;
  /** Milliseconds. */
  readonly betweenChunks: number;
}

/** What an answer may be. */
interface Expected extends InspectionLimits {
  readonly answers: Endpoint['answers'];
  readonly stream: boolean;
}

/**
 * How long the beginning of an answer is waited for before it is sent down as it comes: comments that keep a connection alive are held
 * for as long. Milliseconds.
 */
const inspectionTimeout = 5_000;

async function peekAt<T>(
  data: PeekedBody,
  decide: (start: BodyStart) => T | undefined,
  { deadline, betweenChunks }: InspectionLimits,
): Promise<T | undefined> {
  deadline.arm(betweenChunks);
  const decided = await data.peek(decide, { onProgress: () => deadline.reset(), maxWait: inspectionTimeout });
  deadline.disarm();
  return decided;
}

/**
 * Reads the beginning of an answer of 2xx, nothing of which has been sent to the client: whether its first event, or the whole of a body that
 * is held until it is whole, is an error.
 */
export async function inspectResponse(response: DecodedResponse, expected: Expected): Promise<InspectedResponse> {
  const { status, headers } = response;
  if (status >= 300 || status === 204 || isEncoded(headers)) return response;
  const isStream = isEventStream(headers);
  const mayBeJson = holdsJson({ answers: expected.answers, response });
  if (!isStream && !expected.stream && !mayBeJson) return response;
  const data = new PeekedBody(response.data);

  let isEvents = isStream || (expected.stream ? undefined : false);

  function decide({ isWhole, length, bytes }: BodyStart): ErrorInside | null | undefined {
    isEvents ??= beginsAsEvents(bytes());
    if (isEvents) return errorInFirstEvent(bytes(), isWhole);
    if (isWhole) return (mayBeJson && errorInBody(bytes())) || null;
    // such a body is sent as it comes
    return isEvents === false && (!mayBeJson || length > holdLimit) ? null : undefined;
  }

  const errorInside = await peekAt(data, decide, expected);
  return { ...response, data, ...(errorInside && { errorInside }), isUndecided: errorInside === undefined };
}

/** The largest refusal that is looked at. Bytes. */
const refusalLimit = 16 * 1024;
const usageField = /stream_options|include_usage/;

/** Whether an upstream refuses what was asked, not who asks or how often. Pure. */
function refusesRequest({ status, errorInside }: ResponseStatus): boolean {
  const said = errorInside?.status ?? status;
  return said === 400 || said === 422;
}

/** Whether an answer is no error. Pure. */
export function isSuccess({ status, errorInside }: ResponseStatus): boolean {
  return status < 300 && errorInside === undefined;
}

/** A refusal that may be about what the gateway added to a request. */
export interface UsageRefusal {
  /** To be sent on in place of the one that was read. */
  readonly response: InspectedResponse;
  /** Whether it names that. */
  readonly isNamed: boolean;
}

/** Whether an answer may refuse `stream_options`; `undefined` where it does not. */
export async function usageRefusal(answer: InspectedResponse, by: InspectionLimits): Promise<UsageRefusal | undefined> {
  if (!refusesRequest(answer)) return undefined;
  if (isEncoded(answer.headers)) return { response: answer, isNamed: false };
  const data = new PeekedBody(answer.data);
  const decide = ({ isWhole, length, bytes }: BodyStart) =>
    isWhole || length > refusalLimit ? usageField.test(bytes().toString('latin1', 0, refusalLimit)) : undefined;
  const isNamed = (await peekAt(data, decide, by)) === true;
  return { response: { ...answer, data }, isNamed };
}
