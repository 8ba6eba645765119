import type { ServerResponse } from 'node:http';
import { GatewayError, isGatewayError } from '../errors.ts';
import type { AccountTurns } from '../fairness/account-shares.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { ModelCall } from '../options/options.ts';
import { CallDeadline } from '../outbound/deadline.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { type Admission, oneAnswer, requestAdmission, settle } from '../proxy/admission.ts';
import { collect } from '../proxy/answer-body.ts';
import { failureFrom, isMasked, requireRelayable, sendMasked } from '../proxy/failure.ts';
import { isEventStream, setResponseHeaders } from '../proxy/headers.ts';
import type { CallDependencies } from '../proxy/relay.ts';
import { tryUpstreams } from '../proxy/retry.ts';
import { sendResponse } from '../proxy/send-answer.ts';
import { type Upstream, UpstreamRequests } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';
import { openRecord, UsageMeter } from '../proxy/usage-meter.ts';
import type { BackgroundResponses } from './background.ts';
import { ResponseReader, type Work, works } from './ended-response.ts';
import { kinds, madeBy, resultOf, runsOn, type StoredCall } from './kinds.ts';
import { withOwnAddress } from './message-batch.ts';
import type { StoredMeter } from './metering.ts';
import { type createPartCheck, partKind } from './parts.ts';
import { type BodyWatcher, ownedResponse, shownMade, shownParts } from './recorded-answer.ts';
import { metadataOf } from './references.ts';
import type { StoredObjects } from './service.ts';
import { type BackgroundResponse, isUncounted, originOf, type StoredObject } from './stored-object.ts';
import { mostUnfinished, type WorkRequests, type WorkUsage } from './work.ts';

export interface StoredRelayDeps extends CallDependencies {
  readonly storedObjects: StoredObjects;
  readonly backgroundResponses: BackgroundResponses;
  /** The most files an account may have. */
  readonly maxFiles: number;
  /** The largest file. Bytes. */
  readonly maxFileBytes: number;
}

/** What the calls of a process share. */
interface StoredExchangeDeps extends StoredRelayDeps {
  readonly requireParts: ReturnType<typeof createPartCheck>;
  /** Each call that has its upstream work through a file may read a large one, and must know of those before it. */
  readonly workTurns: AccountTurns;
}

/** Where a call goes. */
export interface StoredRoute {
  /** Below an upstream's base URL. */
  readonly path: string;
  /** What it is about; `undefined` where it makes that. */
  readonly object: StoredObject | undefined;
  /** The file that it has its upstream work through; `undefined` where there is none. */
  readonly file: StoredObject | undefined;
  /** The upstreams that may answer it, in the order in which they are tried. */
  readonly order: readonly [Upstream, ...Upstream[]];
}

/** What an upstream is to work on for long. */
interface AdmittedWork {
  readonly usage: WorkUsage;
  readonly data: WorkRequests['data'];
  /** Until they are in the hands of those who follow it. */
  admissions: readonly Admission[];
}

/** What is told of a call to who admits it. @param model known of what was read */
export function infoOf({ path }: StoredCall, { requestId, principal }: ApiRequest, model?: string): ModelCall {
  return { requestId, principal, endpoint: path, model, stream: false };
}

/** Whether a second one of what a call makes does harm. */
function isMadeOnce(call: StoredCall): boolean {
  const kind = madeBy(call);
  return kind !== undefined && kinds[kind].isMadeOnce === true;
}

/** The same error, on which clients do not send the request again by themselves: an upstream may have made what it asks for. */
function withoutRetry(thrown: unknown): unknown {
  if (!isGatewayError(thrown)) return thrown;
  const { code, message, param, headers } = thrown;
  return new GatewayError(code, message, {
    ...(param !== null && { param }),
    headers: { ...headers, 'x-should-retry': 'false' },
    cause: thrown,
  });
}

/** What a client asks for of a file that it has a part of, or an older copy (RFC 9110, sections 13 and 14), and what answers that. */
const rangeRequest = ['range', 'if-range', 'if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'];
const rangeAnswer = ['accept-ranges', 'content-range', 'etag', 'last-modified'];
/** With these statuses it is answered; 304 has no body. */
const rangeStatuses: ReadonlySet<number> = new Set([200, 206, 304, 412, 416]);

/** What is passed on of an answer that comes before all of an upload has. Bytes. */
const longestEarlyAnswer = 1024 * 1024;

/** One call, on its way. Unless it has an upstream work through a file, it calls no model: what it moves and makes is charged at most. */
export class StoredExchange {
  readonly #apiRequest: ApiRequest;
  readonly #order: StoredRoute['order'];
  readonly #deadline: CallDeadline;
  readonly #requests: UpstreamRequests;
  readonly #deps: StoredExchangeDeps;
  readonly #call: StoredCall;
  readonly #object: StoredObject | undefined;
  readonly #file: StoredObject | undefined;
  readonly #meter: StoredMeter;
  /** Below an upstream's base URL. */
  readonly #path: string;
  /** What it attaches to the object in place of what was. */
  readonly #metadata: StoredObject['metadata'];
  /** Whether it may be sent again once an upstream may have got it: what has gone up of an upload is gone, and what is made twice is made twice. */
  readonly #resends: boolean;
  #work: AdmittedWork | undefined;
  /** As it is sent down, once it has begun. */
  #answer: OutboundResponse | undefined;

  constructor(
    deps: StoredExchangeDeps,
    call: StoredCall,
    apiRequest: ApiRequest,
    route: StoredRoute,
    meter: StoredMeter,
  ) {
    const { path, object, file, order } = route;
    const attaches = call.effect === 'changesMetadata' || (!object && kinds[call.kind].hasMetadata);
    this.#deps = deps;
    this.#call = call;
    this.#object = object;
    this.#file = file;
    this.#meter = meter;
    this.#path = path;
    this.#metadata = attaches ? metadataOf(apiRequest) : undefined;
    this.#resends = !apiRequest.bodyStream && !isMadeOnce(call);
    this.#apiRequest = apiRequest;
    this.#order = order;
    this.#deadline = new CallDeadline(apiRequest.client, order[0].timeouts.total, () => this.#graceOnDisconnect());
    this.#requests = new UpstreamRequests(apiRequest, this.#deadline, deps);
  }

  /** @throws GatewayError as long as it has sent nothing, unless the client has left */
  async run(res: ServerResponse): Promise<void> {
    const { requireParts, workTurns } = this.#deps;
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    const object = this.#object;
    const file = this.#file;
    try {
      if (object) await requireParts(this.#call, { apiRequest, object, upstream: this.#order[0], deadline });
      const works = file !== undefined || this.#call.runsBody === true;
      if (works) await workTurns.run(apiRequest.principal.userId, () => this.#startWork(res));
      else await this.#exchange(res);
    } catch (error) {
      // the client has left and reads no answer
      if (deadline.client.disconnected) return;
      const thrown = error instanceof OutboundError ? failureFrom(error) : error;
      throw isMadeOnce(this.#call) && this.#meter.isSent ? withoutRetry(thrown) : thrown;
    } finally {
      deadline.release();
    }
  }

  /** From its first attempt to the end of its answer. */
  async #exchange(res: ServerResponse): Promise<void> {
    const { retry } = this.#deps;
    const apiRequest = this.#apiRequest;
    const { userId } = apiRequest.principal;
    const place = new CallPlace(userId);
    try {
      const routed = { userId, order: this.#order, deadline: this.#deadline, place };
      const policy = { ...retry, resends: this.#resends };
      const { upstream, response } = await tryUpstreams(routed, (...next) => this.#send(...next), policy);
      this.#answer = response;
      apiRequest.releaseBody();
      await this.#take(upstream, response, res);
    } catch (error) {
      // whatever it has failed at, nobody reads the rest
      this.#answer?.data.destroy();
      throw apiRequest.bodyStream?.failure ?? error;
    } finally {
      if (this.#work) settle(this.#deps, this.#work, undefined);
      place.release();
      this.#requests.span?.end();
    }
  }

  /** Has the upstream work through a file, or the requests of the body, once that is admitted. */
  async #startWork(res: ServerResponse): Promise<void> {
    this.#work = await this.#admitWork(res);
    // until it is stored with what is made
    this.#deps.usageRecorder.opened(this.#work.usage);
    await this.#exchange(res);
  }

  /** Admits what an upstream is to work on for long when it is known what that is. */
  async #admitWork(res: ServerResponse): Promise<AdmittedWork> {
    const { storedObjects, backgroundResponses, retry, admissionChecks } = this.#deps;
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    const file = this.#file;
    const { userId } = apiRequest.principal;
    const { kind } = this.#call;
    backgroundResponses.requireRoom(userId);
    const [upstream] = this.#order;
    const { read } = works[kind] as Work;
    const { data, ...requests } = await read({ apiRequest, deadline, upstream, file, storedObjects, retry });
    if ((await storedObjects.uncounted({ userId, kind }, mostUnfinished)).length === mostUnfinished) {
      const message = `An account may have ${mostUnfinished} unfinished at a time (${kinds[kind].name}); try again when one has ended`;
      throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '60' } });
    }
    apiRequest.relayed.model = requests.model;
    const info = infoOf(this.#call, apiRequest, requests.model);
    const admissions = await requestAdmission(admissionChecks, { info, ...requests }, res);
    const { maxTokens: maxOutputTokens } = requests.output;
    const usage = {
      ...openRecord({ info, ...requests }, upstream.name, Date.now()),
      ...(requests.output.tools && { tools: requests.output.tools }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    };
    return { usage, data, admissions };
  }

  /** What an upstream makes has an owner, and what goes up to it is charged, whether or not its client waits for the answer. Milliseconds. */
  #graceOnDisconnect(): number {
    const isAwaited = madeBy(this.#call) !== undefined || this.#meter.isUploading;
    const isUp = this.#meter.isSent && (this.#apiRequest.bodyStream?.isWhole ?? true);
    return isAwaited && isUp ? Number.POSITIVE_INFINITY : 0;
  }

  async #send(upstream: Upstream, onConnected: () => void): Promise<OutboundResponse> {
    const { method, path: template, answers } = this.#call;
    const { bodyStream, rawBody } = this.#apiRequest;
    const meter = this.#meter;
    const body = this.#work?.data ?? rawBody;
    const data = bodyStream ? { data: bodyStream, length: bodyStream.length } : body.length > 0 && { data: body };
    try {
      return await this.#requests.send(upstream, {
        method,
        path: this.#path,
        template,
        resends: this.#resends,
        onSend: () => {
          onConnected();
          meter.isSent = true;
          this.#awaitUpload(upstream);
        },
        onLost: () => {
          meter.isSent = false;
        },
        ...(answers === 'file' && { passed: rangeRequest }),
        ...data,
      });
    } catch (error) {
      // that the client's body ended early is no failure of the upstream
      throw bodyStream?.failure
        ? new OutboundError('aborted', 'the upload ended early', { cause: bodyStream.failure })
        : error;
    }
  }

  /** The upstream is given time to answer when it has all of an upload, and to take what has come of it. */
  #awaitUpload({ timeouts: { firstByte } }: Upstream): void {
    const { bodyStream } = this.#apiRequest;
    const deadline = this.#deadline;
    if (!bodyStream) return;
    bodyStream.onTurn = (isClients) => (isClients ? deadline.disarm() : deadline.arm(firstByte));
    bodyStream.onTurn(bodyStream.isClientsTurn);
  }

  /** Takes an answer: notes what it says, and sends it down. */
  async #take(upstream: Upstream, response: OutboundResponse, res: ServerResponse): Promise<void> {
    const { answers, effect } = this.#call;
    if (response.status !== 304 || answers !== 'file') requireRelayable(response, this.#apiRequest);
    // an upstream that keeps it no longer has deleted it
    if (response.status === 404 && effect === 'removes')
      await this.#deps.storedObjects.remove(this.#object as StoredObject);
    const shown = response.status < 300 && this.#call.showsAddress ? withOwnAddress(response) : response;
    const answer = response.status < 300 ? await this.#noted(upstream.name, shown) : response;
    this.#answer = answer;
    await this.#sendDown(upstream, answer, res);
  }

  /** An answer of 2xx, when what the call has changed is noted. What is in it is noted while it is passed on. */
  async #noted(upstream: string, response: OutboundResponse): Promise<OutboundResponse> {
    const { kind, effect, showsParts, showsMade, brings } = this.#call;
    const { storedObjects, logger } = this.#deps;
    const object = this.#object;
    const metadata = this.#metadata;
    if (!object || brings) return this.#owned(upstream, response);
    this.#meter.done(upstream, false);
    try {
      if (effect === 'removes') await storedObjects.remove(object);
      if (metadata) await storedObjects.setMetadata(object, metadata);
    } catch (error) {
      // the upstream has done it, and says so also when it is asked again
      const { id } = object;
      logger.warn('a change of what an upstream keeps was not noted', { kind, id, reason: String(error) });
    }
    const watcher = this.#call.showsEnd && isUncounted(object) ? this.#endWatcher(object, response) : undefined;
    if (showsMade) return shownMade(response, showsMade, object, storedObjects, watcher);
    const part = showsParts && partKind(kind, showsParts.param);
    if (!part) return response;
    return shownParts(response, { kind: part, list: showsParts.list }, object, storedObjects, watcher);
  }

  /** An answer that brings an object: its bytes come when it is stored whose that is. */
  #owned(upstream: string, response: OutboundResponse): OutboundResponse {
    const { kind, path, brings } = this.#call;
    const { storedObjects, backgroundResponses } = this.#deps;
    const { userId, keyId } = this.#apiRequest.principal;
    const metadata = this.#metadata;
    const work = this.#work;
    const made = {
      kind: brings?.kind ?? kind,
      userId,
      upstream,
      model: work?.usage.model ?? null,
      origin: originOf(keyId, path, this.#object?.id),
      ...(metadata && { metadata }),
    };
    const background = work && {
      usage: { ...work.usage, firstByteMs: Date.now() - work.usage.startedAt.getTime() },
      onRunning(id: string) {
        const { usage, admissions } = work;
        // they are in the hands of those who follow it
        work.admissions = [];
        backgroundResponses.started({ id, userId }, { admissions, usageId: usage.id });
      },
    };
    const onOwned = () => this.#meter.done(upstream, true);
    return ownedResponse(response, made, storedObjects, {
      background,
      member: brings?.member,
      needsOwner: true,
      onOwned,
    });
  }

  /** Counts what its upstream works on after the call when an answer about it shows its end. The client waits for none of it. */
  #endWatcher(object: BackgroundResponse, { headers }: OutboundResponse): BodyWatcher {
    const { backgroundResponses } = this.#deps;
    const { kind, background } = object;
    const { work } = kinds[kind];
    // the events of a stream are not looked through: the upstream says it in one piece
    if (!work && isEventStream(headers)) return { read() {}, onEnd: () => backgroundResponses.pollSoon(object) };
    const reader = new ResponseReader(kind);
    return {
      read: (chunk) => reader.read(chunk),
      onEnd() {
        if (work) {
          // what it has used, others say
          if (!runsOn(kind, reader.status)) backgroundResponses.pollSoon(object);
          return;
        }
        try {
          const record = reader.record(background);
          if (record) void backgroundResponses.ended(object, record);
        } catch {
          // it is polled when that is due
        }
      },
    };
  }

  async #sendDown(upstream: Upstream, response: OutboundResponse, res: ServerResponse): Promise<void> {
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    const { exposeUpstream, logger } = this.#deps;
    const shownUpstream = exposeUpstream ? upstream.name : undefined;
    const { bodyStream } = apiRequest;
    const isFile = this.#call.answers === 'file';
    if (isFile) setFileHeaders(response, res);
    if (isFile && (response.status === 304 || (response.status < 300 && res.req.method === 'HEAD'))) {
      response.data.destroy();
      setResponseHeaders(res, response.headers);
      res.writeHead(response.status).end();
    } else if (bodyStream && !bodyStream.isWhole) {
      const { bytes } = await collect(response.data, longestEarlyAnswer);
      response.data.destroy();
      res.statusCode = response.status;
      setResponseHeaders(res, response.headers);
      res.setHeader('content-length', bytes.length);
      bodyStream.answerEarly(res, bytes);
    } else if (isMasked(upstream, response.status)) {
      await sendMasked({ upstream, response, shownUpstream, res, apiRequest, deadline }, logger);
    } else await this.#sendBody(upstream, response, res, shownUpstream);
  }

  /** Sends an answer as it comes, and measures it. */
  async #sendBody(
    upstream: Upstream,
    response: OutboundResponse,
    res: ServerResponse,
    shownUpstream: string | undefined,
  ): Promise<void> {
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    const call = this.#call;
    const meter = this.#meter;
    const isFile = call.answers === 'file';
    const bytes = new UsageMeter({ answersImages: false }, false, oneAnswer);
    try {
      meter.ending = await sendResponse({
        ...{ response, res, shownUpstream, deadline, meter: bytes },
        betweenChunks: upstream.timeouts.betweenChunks,
        heartbeat: this.#deps.streamHeartbeat,
        answers: call.answers,
        result: resultOf(call),
        asksForStream: !isFile && apiRequest.query.stream === 'true',
        endsInDone: false,
        responseStream: 'resumed',
        dropsUsageChunk: false,
        repairsVectors: false,
      });
    } catch (error) {
      meter.ending = deadline.client.disconnected ? 'client_left' : 'upstream_failed';
      const hasNoId = error instanceof OutboundError && error.code === 'invalid_response';
      if (hasNoId || bytes.failure) upstream.breaker.countEnd(apiRequest.principal.userId, true);
      throw error;
    } finally {
      if (isFile) meter.downloadedBytes = bytes.bytes;
    }
  }
}

/** Sets the headers of an answer that is a file, or a part of one. */
function setFileHeaders({ status, headers }: OutboundResponse, res: ServerResponse): void {
  if (rangeStatuses.has(status)) {
    for (const name of rangeAnswer) {
      const value = headers[name];
      if (typeof value === 'string') res.setHeader(name, value);
    }
  }
  if (status >= 300 && status !== 304) return;
  // what customers have uploaded is no page of the host's
  res.setHeader('content-disposition', 'attachment');
  res.setHeader('content-security-policy', 'sandbox');
  res.setHeader('x-content-type-options', 'nosniff');
}
