import type { CallEnding, OpenUsage, UsageRecord } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import { type Admission, type RequestedCall, settle } from '../proxy/admission.ts';
import { ToolCalls } from '../proxy/hosted-tools.ts';
import type { ErrorInside } from '../proxy/inspect-answer.ts';
import { errorInAnswer, type RelayDependencies } from '../proxy/relay.ts';
import { type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';
import { answerBytesPerToken, closedRecord, openRecord, textBytes } from '../proxy/usage-meter.ts';
import { usedByResponse } from '../stored/ended-response.ts';
import { UpstreamSpan } from '../tracing/spans.ts';
import { responseIdOf, sessionEvents, type UpstreamEvent } from './events.ts';
import { decodedLength, pcmRate, soundRate, tokensPerSecond } from './sound.ts';

/** A response that a client has asked for, or that an upstream makes by itself. */
interface MeteredResponse {
  /** The upstream's name for it, once it has begun. */
  id: string | undefined;
  /** The `event_id` of the client's event that asks for it. */
  readonly eventId: string | undefined;
  call: RequestedCall;
  readonly upstream: Upstream;
  usage: OpenUsage;
  readonly place: CallPlace | undefined;
  /** `undefined` where there is no SDK. */
  readonly span: UpstreamSpan | undefined;
  /** `undefined` until something is admitted for it. */
  admissions: readonly Admission[] | undefined;
  readonly startedAt: number;
  hasBegun: boolean;
  firstByteMs: number;
  events: number;
  textBytes: number;
  /** How many bytes a second of its sound has. */
  soundRate: number;
  soundSeconds: number;
  readonly tools: ToolCalls;
}

/** What is asked of an upstream, and what was admitted for it. */
export interface AskedResponse {
  readonly call: RequestedCall;
  readonly upstream: Upstream;
  /** `undefined` where nobody has asked for it: see {@link MeteredResponses.admit}. */
  readonly admissions: readonly Admission[] | undefined;
  readonly eventId?: string | undefined;
}

/** A response that has ended: the input that was expected of it, and what it has used. */
export interface EndedResponse {
  readonly estimatedTokens: number;
  readonly record: UsageRecord;
}

/** The responses under way on one WebSocket. Each is charged when it has ended, by one usage record. */
export class MeteredResponses {
  readonly #deps: RelayDependencies;
  readonly #principal: Principal;
  readonly #unasked: (event?: UpstreamEvent) => AskedResponse;
  /** In the order in which they were asked for. */
  readonly #open: MeteredResponse[] = [];
  /** How many bytes a second of sound has, unless a response says otherwise. */
  #soundRate: number = pcmRate;

  /** @param unasked what a response is that no client has asked for, or whose beginning was not seen */
  constructor(deps: RelayDependencies, principal: Principal, unasked: (event?: UpstreamEvent) => AskedResponse) {
    this.#deps = deps;
    this.#principal = principal;
    this.#unasked = unasked;
  }

  /** Whether a response is under way, or has been asked for. */
  get isBusy(): boolean {
    return this.#open.length > 0;
  }

  /**
   * A client asks for a response.
   * @throws GatewayError where the upstream has no place for it; then its admissions are dropped
   */
  asked(asked: AskedResponse): void {
    const place = new CallPlace(this.#principal.userId);
    const noPlace = place.moveTo(asked.upstream.calls);
    if (noPlace) {
      this.#settle(asked, undefined);
      throw noPlace;
    }
    this.#add(asked, place);
  }

  #begun(event: UpstreamEvent): void {
    const response = this.#open.find(({ hasBegun }) => !hasBegun) ?? this.#add(this.#unasked(event), undefined);
    response.id = responseIdOf(event);
    response.hasBegun = true;
    response.soundRate = soundRate(event.response, 'output') ?? this.#soundRate;
    response.firstByteMs = performance.now() - response.startedAt;
    const { upstream, call, firstByteMs } = response;
    this.#deps.reports.responded(upstream, 200, firstByteMs);
    this.#deps.hooks?.onResponse(call.info, upstream.name, 200, firstByteMs);
  }

  /**
   * Has the response admitted that the upstream has begun without being asked, if it has.
   * @throws what `admit` throws: it is charged all the same
   */
  async admit(admit: (call: RequestedCall) => Promise<readonly Admission[]>): Promise<void> {
    const response = this.#open.find(({ admissions }) => admissions === undefined);
    if (response) response.admissions = await admit(response.call);
  }

  /** The upstream has begun a response, has sent a part of one, or says what the session is. */
  saw(event: UpstreamEvent): void {
    const { type, response_id, delta, soundBytes = 0 } = event;
    if (type === 'response.created') this.#begun(event);
    else if (sessionEvents.has(type)) this.#soundRate = soundRate(event.session, 'output') ?? this.#soundRate;
    else if (type.startsWith('response.')) {
      const response = this.#underWay(response_id);
      if (!response) return;
      this.#addPart(response, delta, decodedLength(soundBytes) / response.soundRate);
      response.tools.addEvent(event);
    }
  }

  /** The response under way of this id. @param id @default the last one */
  #underWay(id: unknown): MeteredResponse | undefined {
    const named = this.#open.find((open) => open.id !== undefined && open.id === id);
    return named ?? this.#open.findLast(({ hasBegun }) => hasBegun);
  }

  /** A part has come of what has begun. @param id @default that of the last one @param seconds of sound */
  wrote(id: unknown, text: unknown, seconds = 0): void {
    const response = this.#underWay(id);
    if (response) this.#addPart(response, text, seconds);
  }

  #addPart(response: MeteredResponse, text: unknown, seconds: number): void {
    response.events += 1;
    response.textBytes += textBytes(text);
    response.soundSeconds += seconds;
  }

  /**
   * A response has ended.
   * @param failure the error that it has ended in
   * @param text all of it, where its end says it
   * @returns what was expected of it, and what it has used
   */
  ended(id: string | undefined, usage: unknown, failure: ErrorInside | undefined, text?: unknown): EndedResponse {
    const response =
      this.#open.find((open) => open.id !== undefined && open.id === id) ??
      this.#open.find(({ hasBegun }) => !hasBegun) ??
      this.#add(this.#unasked(), undefined);
    response.textBytes = Math.max(response.textBytes, textBytes(text));
    this.#reportEnd(response, failure);
    const record = this.#close(response, failure ? 'upstream_failed' : 'complete', usage, failure !== undefined);
    return { estimatedTokens: response.call.estimatedTokens, record };
  }

  /** Whether what has this id is under way. */
  has(id: string): boolean {
    return this.#open.some((open) => open.id === id);
  }

  /** What is no response has begun, such as the transcription of what a user has said. */
  began(id: string, asked: AskedResponse): void {
    const work = this.#add(asked, undefined);
    work.id = id;
    work.hasBegun = true;
  }

  /** More is known of what one uses that has begun. */
  estimated(id: string, call: RequestedCall): void {
    const work = this.#open.find((open) => open.id === id);
    if (!work) return;
    const { id: _, ...estimate } = openRecord(call, work.upstream.name, work.usage.startedAt.getTime());
    work.call = call;
    work.usage = { ...estimate, id: work.usage.id };
  }

  /** One has ended that costs nothing. */
  dropped(id: string): void {
    const work = this.#open.find((open) => open.id === id);
    work?.span?.failed(errorInAnswer);
    if (work) this.#remove(work, undefined);
  }

  /**
   * The upstream refuses to make a response, and nothing is charged for it.
   * @param eventId the event that it refuses. @default the first one that has not begun
   * @returns whether there was one
   */
  refused(eventId: string | undefined): boolean {
    const waiting = this.#open.filter(({ hasBegun }) => !hasBegun);
    const response = eventId === undefined ? waiting[0] : waiting.find((open) => open.eventId === eventId);
    if (!response) return false;
    response.span?.failed(errorInAnswer);
    this.#remove(response, undefined);
    return true;
  }

  /** The socket has ended: what has begun is charged by what was seen of it. */
  endAll(ending: CallEnding): void {
    for (const response of [...this.#open]) {
      if (!response.hasBegun) {
        response.span?.failed(ending);
        this.#remove(response, undefined);
      } else this.#close(response, ending, undefined, false);
    }
  }

  #add({ call, upstream, admissions, eventId }: AskedResponse, place: CallPlace | undefined): MeteredResponse {
    const usage = openRecord(call, upstream.name, Date.now());
    this.#deps.usageRecorder.opened(usage);
    const { requestId, principal, endpoint: path, model: called } = call.info;
    const model = called === undefined ? undefined : upstreamModelName(upstream, called);
    const span = UpstreamSpan.start({ upstream, path, model, apiRequest: { requestId, principal } });
    const response: MeteredResponse = {
      ...{ id: undefined, eventId, call, upstream, usage, place, span, admissions },
      ...{ startedAt: performance.now(), hasBegun: false, firstByteMs: 0, events: 0, textBytes: 0 },
      ...{ soundRate: this.#soundRate, soundSeconds: 0 },
      tools: new ToolCalls(),
    };
    this.#open.push(response);
    return response;
  }

  /** Tells the breaker, the log and the metrics how a response has ended. What is wrong with a request is not its upstream's fault. */
  #reportEnd({ upstream, call, span }: MeteredResponse, failure: ErrorInside | undefined): void {
    const { reports } = this.#deps;
    const isFault = failure?.blamesRequest === false;
    upstream.breaker.countEnd(this.#principal.userId, isFault);
    if (!failure) reports.logAnswer(upstream, call.info.endpoint, 200);
    if (!isFault) return;
    reports.failed(upstream, call.info.endpoint, errorInAnswer);
    span?.failed(errorInAnswer);
  }

  #close(response: MeteredResponse, ending: CallEnding, reported: unknown, hasFailed: boolean): UsageRecord {
    const { call, usage, events, tools, startedAt, firstByteMs } = response;
    const { output } = call;
    // sound is counted by its length, not by its bytes
    const bytes = response.textBytes + response.soundSeconds * tokensPerSecond.spoken * answerBytesPerToken;
    const used = usedByResponse(reported, { bytes, events, tools: tools.use }, usage, { output, ending, hasFailed });
    const durationMs = performance.now() - startedAt;
    const record = closedRecord(usage, used, { upstream: usage.upstream, ending, durationMs, firstByteMs });
    this.#remove(response, record);
    return record;
  }

  #remove(response: MeteredResponse, record: UsageRecord | undefined): void {
    this.#open.splice(this.#open.indexOf(response), 1);
    if (record) response.span?.used(record);
    response.span?.end();
    response.place?.release();
    this.#settle(response, record);
  }

  #settle({ admissions = [], usage }: Partial<MeteredResponse>, record: UsageRecord | undefined): void {
    settle(this.#deps, { admissions, ...(usage && { usage }) }, record);
  }
}
