import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { GatewayError, isGatewayError, refuse } from '../errors.ts';
import { AccountTurns } from '../fairness/account-shares.ts';
import type { ApiRequest, RelayOperation } from '../http/operation.ts';
import type { ModelCall } from '../options/options.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { type Admission, oneAnswer, requestAdmission, settle } from '../proxy/admission.ts';
import { collect } from '../proxy/answer-body.ts';
import { CallDeadline } from '../proxy/call-deadline.ts';
import { failureFrom, isMasked, requireRelayable, sendMasked } from '../proxy/failure.ts';
import { isEventStream, setResponseHeaders } from '../proxy/headers.ts';
import { shortValue } from '../proxy/model-body.ts';
import type { CallDependencies } from '../proxy/relay.ts';
import { tryUpstreams } from '../proxy/retry.ts';
import { sendResponse } from '../proxy/send-answer.ts';
import { selectUpstreams, type Upstream, UpstreamRequests } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';
import { openRecord, UsageMeter } from '../proxy/usage-meter.ts';
import type { BackgroundResponses } from './background.ts';
import { ResponseReader, type Work, works } from './ended-response.ts';
import {
  idParameter,
  kinds,
  madeBy,
  resultOf,
  runsOn,
  type StoredCall,
  type StoredOperation,
  storedCalls,
  upstreamPath,
} from './kinds.ts';
import { requestedStored, StoredMeter } from './metering.ts';
import { createPartCheck, partKind } from './parts.ts';
import { type BodyWatcher, ownedResponse, shownMade, shownParts } from './recorded-answer.ts';
import { fileReferences, metadataOf, namedObjects, requireOwned } from './references.ts';
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

/** Serves one call about what an upstream keeps. Throws a GatewayError as long as it has sent nothing. */
export type StoredRelay = (call: StoredCall, apiRequest: ApiRequest, res: ServerResponse) => Promise<void>;

/** The operations about what upstreams keep. */
export function storedOperations({ relay, list }: { readonly relay: StoredRelay; readonly list: StoredRelay }) {
  const operations = Object.entries(storedCalls).map(([operationId, call]) => {
    const serve = call.lists ? list : relay;
    const operation: RelayOperation = {
      streamsUp: call.streamsUp ?? false,
      // what is not taken of an upload is dropped before an error is answered, so that the connection can take the next request
      relay: (apiRequest, res) => serve(call, apiRequest, res).finally(() => apiRequest.bodyStream?.destroy()),
    };
    return [operationId, operation];
  });
  return Object.fromEntries(operations) as Readonly<Record<StoredOperation, RelayOperation>>;
}

/** One call, on its way. Unless it has an upstream work through a file, it calls no model: what it moves and makes is charged at most. */
interface RoutedStoredCall {
  readonly call: StoredCall;
  readonly apiRequest: ApiRequest;
  /** Below an upstream's base URL. */
  readonly path: string;
  /** What it is about; `undefined` where it makes that. */
  readonly object: StoredObject | undefined;
  /** The upstreams that may answer it, in the order in which they are tried. */
  readonly order: readonly Upstream[];
  readonly deadline: CallDeadline;
  /** What it attaches to the object in place of what was. */
  readonly metadata: StoredObject['metadata'];
  /** The file that it has its upstream work through; `undefined` where there is none. */
  readonly file: StoredObject | undefined;
  readonly meter: StoredMeter;
}

/** What an upstream is to work on for long. */
interface AdmittedWork {
  readonly usage: WorkUsage;
  readonly data: WorkRequests['data'];
  /** Until they are in the hands of those who follow it. */
  admissions: readonly Admission[];
}

/**
 * Always the same number for an account, as `Math.random` gives it: what it has several upstreams keep is in one of them as long as these stay,
 * so that it can be named together.
 */
function sameFor(userId: string): () => number {
  const share = createHash('sha256').update(userId).digest().readUInt32BE() / 2 ** 32;
  return () => share;
}

/** What is told of a call to who admits it. @param model known of what was read */
function infoOf({ path }: StoredCall, { requestId, principal }: ApiRequest, model?: string): ModelCall {
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

/** Relays calls about what upstreams keep to the upstream that keeps it. */
export function createStoredRelay(deps: StoredRelayDeps): StoredRelay {
  const { upstreams, retry, storedObjects, backgroundResponses, usageRecorder, maxFiles, logger } = deps;
  /** The files that are being made for accounts. */
  const filesUnderWay = new Map<string, number>();
  const requireParts = createPartCheck(deps);
  // each may read a large file, and must know of those before it
  const workTurns = new AccountTurns(1);

  return async function relayStored(call, apiRequest, res) {
    const requested = requestedStored(call, infoOf(call, apiRequest), apiRequest, deps.maxFileBytes);
    const admissions = call.isCounted ? await requestAdmission(deps.admissionChecks, requested, res) : [];
    const meter = new StoredMeter(requested, apiRequest);
    try {
      await serve(call, apiRequest, res, meter);
    } finally {
      settle(deps, { admissions }, meter.record());
    }
  };

  async function serve(call: StoredCall, apiRequest: ApiRequest, res: ServerResponse, meter: StoredMeter) {
    const { object, file, order } = await routeOf(call, apiRequest);
    const path = upstreamPath(call, apiRequest.params);
    await requireCounted(call, object);
    const attaches = call.effect === 'changesMetadata' || (!object && kinds[call.kind].hasMetadata);
    const metadata = attaches ? metadataOf(apiRequest) : undefined;
    retry.budget.earn();
    const release = call.makesFile ? await takeFilePlace(apiRequest) : undefined;
    const { bodyStream } = apiRequest;
    // what an upstream makes has an owner, and what goes up to it is charged, whether or not its client waits for the answer
    const isAwaited = madeBy(call) !== undefined || meter.isUploading;
    const isUp = () => meter.isSent && (bodyStream?.isWhole ?? true);
    const grace = () => (isAwaited && isUp() ? Number.POSITIVE_INFINITY : 0);
    const deadline = new CallDeadline(apiRequest.client, (order[0] as Upstream).timeouts.total, grace);
    try {
      if (object) await requireParts(call, { apiRequest, object, upstream: order[0] as Upstream, deadline });
      const work = () => run({ call, apiRequest, path, object, order, deadline, metadata, file, meter }, res);
      await (file ? workTurns.run(apiRequest.principal.userId, work) : work());
    } catch (error) {
      // the client has left and reads no answer
      if (deadline.client.disconnected) return;
      const thrown = error instanceof OutboundError ? failureFrom(error) : error;
      throw isMadeOnce(call) && meter.isSent ? withoutRetry(thrown) : thrown;
    } finally {
      release?.();
      deadline.release();
    }
  }

  /**
   * With those that an account has, the files that are being made for it are as many as it may have, in this process.
   * @returns what ends it. @throws GatewayError `file_limit_reached`, `database_unavailable`; `request_too_large` for an upload that announces more
   */
  async function takeFilePlace({ principal: { userId }, body }: ApiRequest): Promise<() => void> {
    const { bytes = 0 } = (body ?? {}) as { readonly bytes?: number };
    if (bytes > deps.maxFileBytes) {
      const message = `bytes: must be ${deps.maxFileBytes} at most, the largest file that this gateway takes`;
      throw new GatewayError('request_too_large', message, { param: 'bytes' });
    }
    const underWay = filesUnderWay.get(userId) ?? 0;
    filesUnderWay.set(userId, underWay + 1);
    const release = (): void => {
      const left = (filesUnderWay.get(userId) ?? 1) - 1;
      if (left > 0) filesUnderWay.set(userId, left);
      else filesUnderWay.delete(userId);
    };
    try {
      if ((await storedObjects.count({ userId, kind: 'file' }, maxFiles)) + underWay < maxFiles) return release;
      const message = `This account has ${maxFiles} files, the most it may have; delete some`;
      throw new GatewayError('file_limit_reached', message);
    } catch (error) {
      release();
      throw error;
    }
  }

  /** The object that a call is about, and the upstreams that may answer: the one that keeps it, or any for a new one. */
  async function routeOf(call: StoredCall, apiRequest: ApiRequest) {
    const { kind, takesItems } = call;
    const param = idParameter(call);
    // no account would own what the upstream keeps
    if (param === undefined) storedObjects.require();
    const references = [
      ...(param === undefined ? [] : [{ kind, id: apiRequest.params[param] as string, param }]),
      ...fileReferences(call, apiRequest),
      ...(await namedObjects(apiRequest)),
    ];
    const referred = { references, ...(takesItems && { itemsIn: 'items' }) };
    const { objects, keepers } = await requireOwned(storedObjects, apiRequest, referred, upstreams);
    const object = param === undefined ? undefined : objects[0];
    const { runsFile } = call;
    const input = runsFile && shortValue(apiRequest.rawBody, apiRequest.fields.get(runsFile));
    const file = runsFile && objects.find((each) => each.kind === 'file' && each.id === input);
    // nothing is made of a file that nobody has read
    if (runsFile && !file) refuse('invalid_value', runsFile, 'must be the id of a file');
    return {
      object,
      file,
      order: objects.length > 0 ? keepers : selectUpstreams(keepers, undefined, sameFor(apiRequest.principal.userId)),
    };
  }

  /** Admits what an upstream is to work on for long when it is known what that is. */
  async function admitWork(
    { call, apiRequest, order, deadline }: RoutedStoredCall,
    file: StoredObject,
    res: ServerResponse,
  ): Promise<AdmittedWork> {
    const { userId } = apiRequest.principal;
    backgroundResponses.requireRoom(userId);
    const [upstream] = order as [Upstream];
    const { read } = works[call.kind] as Work;
    const { data, ...requests } = await read({ apiRequest, deadline, upstream, file, storedObjects, retry });
    if ((await storedObjects.uncounted({ userId, kind: call.kind }, mostUnfinished)).length === mostUnfinished) {
      const message = `An account may have ${mostUnfinished} unfinished at a time (${kinds[call.kind].name}); try again when one has ended`;
      throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '60' } });
    }
    apiRequest.relayed.model = requests.model;
    const info = infoOf(call, apiRequest, requests.model);
    const admissions = await requestAdmission(deps.admissionChecks, { info, ...requests }, res);
    const { maxTokens: maxOutputTokens } = requests.output;
    const usage = {
      ...openRecord({ info, ...requests }, upstream.name, Date.now()),
      ...(requests.output.tools && { tools: requests.output.tools }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    };
    return { usage, data, admissions };
  }

  /** What is deleted cannot be counted any more. @throws GatewayError `response_in_progress` */
  async function requireCounted({ effect }: StoredCall, object: StoredObject | undefined): Promise<void> {
    if (effect !== 'removes' || !object) return;
    const { kind, userId } = object;
    if (kind === 'file') {
      // what a batch has answered may say what it has used: those that have ended are counted before a file is deleted
      const batches = await storedObjects.uncounted({ userId, kind: 'batch' }, mostUnfinished);
      for (const batch of batches) await backgroundResponses.settle(batch);
    } else if (isUncounted(object) && !(await backgroundResponses.settle(object))) {
      throw new GatewayError('response_in_progress', 'This response has not ended; cancel it before you delete it');
    }
  }

  async function run(routed: RoutedStoredCall, res: ServerResponse): Promise<void> {
    const { call, apiRequest, path, order, deadline, file, meter } = routed;
    const { userId } = apiRequest.principal;
    const work = file && (await admitWork(routed, file, res));
    const usage = work?.usage;
    // until it is stored with what is made
    if (usage) usageRecorder.opened(usage);
    const place = new CallPlace(userId);
    const requests = new UpstreamRequests(apiRequest, deadline, deps);
    const { bodyStream } = apiRequest;
    // what has gone up of an upload is gone, and what is made twice is made twice
    const resends = !bodyStream && !isMadeOnce(call);
    const send = async (upstream: Upstream, onConnected: () => void) => {
      const body = work?.data ?? apiRequest.rawBody;
      const data = bodyStream ? { data: bodyStream, length: bodyStream.length } : body.length > 0 && { data: body };
      const onSend = () => {
        onConnected();
        meter.isSent = true;
        // the upstream is given time to answer when it has all of an upload, and to take what has come of it
        if (bodyStream) {
          const { firstByte } = upstream.timeouts;
          bodyStream.onTurn = (isClients) => (isClients ? deadline.disarm() : deadline.arm(firstByte));
          bodyStream.onTurn(bodyStream.isClientsTurn);
        }
      };
      try {
        return await requests.send(upstream, {
          method: call.method,
          path,
          template: call.path,
          resends,
          onSend,
          onLost: () => {
            meter.isSent = false;
          },
          ...(call.answers === 'file' && { passed: rangeRequest }),
          ...data,
        });
      } catch (error) {
        // that the client's body ended early is no failure of the upstream
        throw bodyStream?.failure
          ? new OutboundError('aborted', 'the upload ended early', { cause: bodyStream.failure })
          : error;
      }
    };
    let answer: OutboundResponse | undefined;
    try {
      const policy = { ...retry, resends };
      const { upstream, response } = await tryUpstreams({ userId, order, deadline, place }, send, policy);
      answer = response;
      apiRequest.releaseBody();
      if (response.status !== 304 || call.answers !== 'file') requireRelayable(response, apiRequest);
      // an upstream that keeps it no longer has deleted it
      if (response.status === 404 && call.effect === 'removes')
        await storedObjects.remove(routed.object as StoredObject);
      answer = response.status < 300 ? await noted(routed, upstream, response, work) : response;
      await sendDown(routed, upstream, answer, res);
    } catch (error) {
      // whatever it has failed at, nobody reads the rest
      answer?.data.destroy();
      throw bodyStream?.failure ?? error;
    } finally {
      if (work) settle(deps, work, undefined);
      place.release();
      requests.span?.end();
    }
  }

  /** An answer of 2xx, when what the call has changed is noted. What is in it is noted while it is passed on. */
  async function noted(
    { call, apiRequest, object, metadata, meter }: RoutedStoredCall,
    { name: upstream }: Upstream,
    response: OutboundResponse,
    work: AdmittedWork | undefined,
  ): Promise<OutboundResponse> {
    const { kind, effect, showsParts, showsMade, brings } = call;
    if (!object || brings) {
      const { userId } = apiRequest.principal;
      const origin = originOf(apiRequest.principal.keyId, call.path, object?.id);
      const attached = metadata && { metadata };
      const made = {
        kind: brings?.kind ?? kind,
        userId,
        upstream,
        model: work?.usage.model ?? null,
        origin,
        ...attached,
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
      const onOwned = () => meter.done(upstream, true);
      return ownedResponse(response, made, storedObjects, {
        background,
        member: brings?.member,
        needsOwner: true,
        onOwned,
      });
    }
    meter.done(upstream, false);
    try {
      if (effect === 'removes') await storedObjects.remove(object);
      if (metadata) await storedObjects.setMetadata(object, metadata);
    } catch (error) {
      // the upstream has done it, and says so also when it is asked again
      const { id } = object;
      logger.warn('a change of what an upstream keeps was not noted', { kind, id, reason: String(error) });
    }
    const watcher = call.showsEnd && isUncounted(object) ? endWatcher(object, response) : undefined;
    if (showsMade) return shownMade(response, showsMade, object, storedObjects, watcher);
    const part = showsParts && partKind(kind, showsParts.param);
    if (!part) return response;
    return shownParts(response, { kind: part, list: showsParts.list }, object, storedObjects, watcher);
  }

  /** Counts what its upstream works on after the call when an answer about it shows its end. The client waits for none of it. */
  function endWatcher(object: BackgroundResponse, { headers }: OutboundResponse): BodyWatcher {
    const { kind, background } = object;
    const { work } = kinds[kind];
    // the events of a stream are not looked through: the upstream says it in one piece
    if (!work && isEventStream(headers)) return { read() {}, onEnd: () => backgroundResponses.pollSoon(object) };
    const reader = new ResponseReader();
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

  async function sendDown(
    { call, apiRequest, deadline, meter }: RoutedStoredCall,
    upstream: Upstream,
    response: OutboundResponse,
    res: ServerResponse,
  ): Promise<void> {
    const shownUpstream = deps.exposeUpstream ? upstream.name : undefined;
    const { bodyStream } = apiRequest;
    const isFile = call.answers === 'file';
    if (isFile) setFileHeaders(response, res);
    if (isFile && (response.status === 304 || (response.status < 300 && res.req.method === 'HEAD'))) {
      response.data.destroy();
      setResponseHeaders(res, response.headers);
      res.writeHead(response.status).end();
      return;
    }
    if (bodyStream && !bodyStream.isWhole) {
      const { bytes } = await collect(response.data, longestEarlyAnswer);
      response.data.destroy();
      res.statusCode = response.status;
      setResponseHeaders(res, response.headers);
      res.setHeader('content-length', bytes.length);
      bodyStream.answerEarly(res, bytes);
      return;
    }
    if (isMasked(upstream, response.status)) {
      await sendMasked({ upstream, response, shownUpstream, res, apiRequest, deadline }, logger);
      return;
    }
    const bytes = new UsageMeter({ answersImages: false }, false, oneAnswer);
    try {
      meter.ending = await sendResponse({
        ...{ response, res, shownUpstream, deadline, meter: bytes },
        betweenChunks: upstream.timeouts.betweenChunks,
        heartbeat: deps.streamHeartbeat,
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
