import { GatewayError } from '../errors.ts';
import type { ModelCall, OpenUsage, RequestedOutput, UsageRecord } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';

/** What a call asks for that does not say it. */
export const oneAnswer: RequestedOutput = Object.freeze({ choices: 1, maxTokens: undefined });

/** One admitted call, for the check that admitted it: exactly one of `closed` and `dropped` is called, once. */
export interface Admission {
  /** Headers that every answer to the call carries. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The call was answered, and that has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, or was answered with an error. */
  dropped(): void;
  /** What the call has begun runs on, and may outlive this process: its record, with this id, is written by whichever process finds its end. */
  outlives?(usageId: string): void;
}

/**
 * Judges a call before it is routed. `undefined` admits it and needs no further notice.
 * @param estimatedTokens the estimated input tokens
 * @param output how much output it asks for
 * @throws GatewayError to refuse the call
 */
export type AdmissionCheck = (
  call: ModelCall,
  estimatedTokens: number,
  output: RequestedOutput,
) => Admission | Promise<Admission | undefined> | undefined;

/** What an admission check judges. */
export interface RequestedCall {
  readonly info: ModelCall;
  readonly estimatedTokens: number;
  readonly output: RequestedOutput;
}

/** Runs the checks in turn. When one refuses, it drops the admissions of those before. @param res gets the headers of the admissions */
export async function requestAdmission(
  checks: readonly AdmissionCheck[],
  { info, estimatedTokens, output }: RequestedCall,
  res: { setHeader(name: string, value: string): unknown },
): Promise<readonly Admission[]> {
  const admissions: Admission[] = [];
  try {
    for (const check of checks) {
      const answer = check(info, estimatedTokens, output);
      const admission = answer && (await answer);
      if (!admission) continue;
      admissions.push(admission);
      for (const name in admission.headers) res.setHeader(name, admission.headers[name] as string);
    }
    return admissions;
  } catch (error) {
    for (const admission of admissions) admission.dropped();
    throw error;
  }
}

/** Whether the caller may call this model, by the name that callers use. */
export function mayCall({ models }: Principal, model: string): boolean {
  return models === undefined || models.includes(model);
}

/**
 * Requires that the caller may call this model. With a key that has a list of models, the call has to name one.
 * @throws GatewayError `model_not_allowed`
 */
export function requireAllowedModel(principal: Principal, model: string | undefined): void {
  if (!principal.models || (model !== undefined && mayCall(principal, model))) return;
  const requestedModel = model === undefined ? 'a call that names no model' : `the model '${model}'`;
  const message = `This API key may not call ${requestedModel}; it may call ${principal.models.join(', ')}`;
  throw new GatewayError('model_not_allowed', message, { param: 'model' });
}

/** A response that runs on after its call. */
interface RunningResponse {
  readonly id: string;
  readonly userId: string;
}

/** Follows responses that run on after their calls, until they are counted. */
export interface RunningResponses {
  /** @throws GatewayError `rate_limit_exceeded` while as many of the account are followed as it may have */
  requireRoom(userId: string): void;
  /**
   * The upstream has begun one, and its record is stored. Its admissions stay until it is counted.
   * @param tokensStreamed the output tokens that its stream has shown by now; an estimated record has no fewer
   */
  started(
    response: RunningResponse,
    call: { readonly admissions: readonly Admission[]; readonly usageId: string },
    tokensStreamed?: () => number,
  ): void;
  /** It has ended. Never rejects. */
  ended(response: RunningResponse, record: UsageRecord): Promise<void>;
}

/** Where what was opened for calls is closed. */
interface SettleDependencies {
  readonly usageRecorder: { closed(record: UsageRecord): void; dropped(id: string): void };
  readonly backgroundResponses: Pick<RunningResponses, 'ended'>;
}

/** What was opened for a call, and is closed when it ends. */
export interface OpenedCall {
  readonly admissions: readonly Admission[];
  /** Its open usage record, once it has upstreams to go to. */
  readonly usage?: OpenUsage;
  /** What has counted the events of its answer. */
  readonly meter?: { readonly events: number };
  /** Its admissions and its record are then in the hands of those who follow it. @default nothing runs on */
  readonly running?: RunningResponse | undefined;
}

/**
 * Closes what was opened for a call, whatever has come of it: its admissions, its usage record, the following of a response that runs on.
 * @param record `undefined` where nothing is charged: it was not answered, or with an error
 */
export function settle(
  { usageRecorder, backgroundResponses }: SettleDependencies,
  { admissions, usage, meter, running }: OpenedCall,
  record: UsageRecord | undefined,
): void {
  if (running) {
    // only the events of a stream say how it has ended
    const hasEnded = record && (meter?.events ?? 0) > 0 && (record.ending === 'complete' || !record.estimated);
    if (hasEnded) void backgroundResponses.ended(running, record);
    return;
  }
  if (!record) {
    for (const admission of admissions) admission.dropped();
    if (usage) usageRecorder.dropped(usage.id);
    return;
  }
  // charge first: a record that cannot be stored gives its charge back
  for (const admission of admissions) admission.closed(record);
  usageRecorder.closed(record);
}
