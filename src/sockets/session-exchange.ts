import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ApiRequest } from '../http/operation.ts';
import { pathOf } from '../http/request.ts';
import type { UsageRecord } from '../options/options.ts';
import { CallDeadline } from '../outbound/deadline.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { type Admission, oneAnswer, type RequestedCall, settle } from '../proxy/admission.ts';
import { collect, parsed } from '../proxy/answer-body.ts';
import { failure, failureFrom, isMasked, requireRelayable, sendMasked } from '../proxy/failure.ts';
import { isEncoded, setResponseHeaders } from '../proxy/headers.ts';
import { tryUpstreams } from '../proxy/retry.ts';
import { sendResponse } from '../proxy/send-answer.ts';
import { type Upstream, UpstreamRequests } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';
import { closedRecord, noUsage, openRecord, UsageMeter } from '../proxy/usage-meter.ts';
import { isStoredId } from '../stored/kinds.ts';
import { type RealtimeSecrets, requireGoodSecret, type ShownSecret } from './secrets.ts';
import type { SessionDependencies } from './session.ts';

/** One operation by which a client has an upstream prepare a realtime session, or take a call. */
export interface SessionCall {
  /** Below an upstream's base URL. */
  readonly path: string;
  /** What its answer brings: a secret in JSON, or a call, which the header Location names. @default nothing */
  readonly makes?: 'secret' | 'call';
  /** The field of the body that has the session. @default the body itself */
  readonly sessionIn?: 'session';
  /** Whether the session only transcribes, whatever its type. @default its type says so */
  readonly transcribes?: boolean;
}

/** What goes up to one upstream. */
export interface SentSession {
  readonly data: Buffer | readonly Buffer[];
  /** The query, with its `?`. */
  readonly search: string;
  /** The model, by the upstream's name. */
  readonly model: string | undefined;
}

/** One request, read and checked. */
export interface SessionRequest extends RequestedCall {
  readonly call: SessionCall;
  readonly apiRequest: ApiRequest;
  /** The model that transcribes in the session, as the caller called it. */
  readonly transcriptionModel: string | undefined;
  /** With which it came, in place of a key. */
  readonly secret: ShownSecret | undefined;
  /** Below an upstream's base URL, with its ids. */
  readonly path: string;
  /** The upstreams that may answer, in the order in which they are tried. */
  readonly order: readonly [Upstream, ...Upstream[]];
  readonly sent: (upstream: Upstream) => SentSession;
}

export interface SessionExchangeDeps {
  readonly relaying: SessionDependencies;
  readonly secrets: Pick<RealtimeSecrets, 'add'>;
}

/** The latest that a Date can be. Milliseconds since 1970. */
const lastDate = 8.64e15;

/** The largest answer. Bytes. */
const longestAnswer = 1024 * 1024;

/** Whether its request may be sent again once an upstream may have got it: a second call would ring twice. */
function mayResend({ makes }: SessionCall): boolean {
  return makes !== 'call';
}

/** One request that prepares a session, and its answer, which waits until it is stored whose that is. It counts as a call that has used nothing. */
export class SessionExchange {
  readonly #deps: SessionExchangeDeps;
  readonly #request: SessionRequest;
  readonly #admissions: readonly Admission[];
  readonly #deadline: CallDeadline;
  readonly #requests: UpstreamRequests;
  readonly #startedAt = performance.now();

  constructor(deps: SessionExchangeDeps, request: SessionRequest, admissions: readonly Admission[]) {
    const { apiRequest, order } = request;
    this.#deps = deps;
    this.#request = request;
    this.#admissions = admissions;
    this.#deadline = new CallDeadline(apiRequest.client, order[0].timeouts.total);
    this.#requests = new UpstreamRequests(apiRequest, this.#deadline, deps.relaying);
  }

  /** @throws GatewayError as long as it has sent nothing */
  async run(res: ServerResponse): Promise<void> {
    const { usageRecorder, retry, hooks } = this.#deps.relaying;
    const { call, apiRequest, order, info, secret } = this.#request;
    const { userId } = apiRequest.principal;
    const deadline = this.#deadline;
    const place = new CallPlace(userId);
    const usage = openRecord(this.#request, order[0].name, Date.now());
    let record: UsageRecord | undefined;
    let answer: OutboundResponse | undefined;
    usageRecorder.opened(usage);
    retry.budget.earn();
    try {
      const policy = { ...retry, resends: mayResend(call) };
      const routed = { userId, order, deadline, place };
      const { upstream, response } = await tryUpstreams(routed, (...next) => this.#send(...next), policy);
      answer = response;
      const firstByteMs = performance.now() - this.#startedAt;
      apiRequest.releaseBody();
      hooks?.onResponse(info, upstream.name, response.status, firstByteMs);
      requireGoodSecret(secret, response.status);
      requireRelayable(response, apiRequest);
      await this.#sendDown(upstream, response, res);
      if (response.status < 300) {
        const durationMs = performance.now() - this.#startedAt;
        record = closedRecord(usage, noUsage, { upstream: upstream.name, ending: 'complete', durationMs, firstByteMs });
        this.#requests.span?.used(record);
      }
    } catch (error) {
      // whatever it has failed at, nobody reads the rest
      answer?.data.destroy();
      if (!deadline.client.disconnected) throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      settle(this.#deps.relaying, { admissions: this.#admissions, usage }, record);
      place.release();
      this.#requests.span?.end();
      deadline.release();
    }
  }

  async #send(upstream: Upstream, onConnected: () => void): Promise<OutboundResponse> {
    const { call, path, sent, secret } = this.#request;
    const { reports } = this.#deps.relaying;
    const { data, search, model } = sent(upstream);
    const startedAt = performance.now();
    const resends = mayResend(call);
    const request = { method: 'POST', path, template: call.path, search, model, resends, onSend: onConnected } as const;
    try {
      const response = await this.#requests.send(upstream, data.length > 0 ? { ...request, data } : request);
      const { status } = response;
      reports.responded(upstream, status, performance.now() - startedAt);
      // what is wrong with a client's secret is not the operator's concern
      if (!secret && !isMasked(upstream, status)) reports.logAnswer(upstream, call.path, status);
      return response;
    } catch (error) {
      if (error instanceof OutboundError && !this.#deadline.client.disconnected) {
        reports.failed(upstream, call.path, error.code);
      }
      throw error;
    }
  }

  async #sendDown(upstream: Upstream, response: OutboundResponse, res: ServerResponse): Promise<void> {
    const { call, apiRequest } = this.#request;
    const { exposeUpstream, logger } = this.#deps.relaying;
    const deadline = this.#deadline;
    const shownUpstream = exposeUpstream ? upstream.name : undefined;
    if (isMasked(upstream, response.status)) {
      await sendMasked({ upstream, response, shownUpstream, res, apiRequest, deadline }, logger);
      return;
    }
    if (response.status < 300 && call.makes) {
      const bytes = await this.#ownedBody(upstream, response, res);
      if (deadline.client.disconnected) return;
      if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
      setResponseHeaders(res, response.headers);
      res.writeHead(response.status, { 'content-length': bytes.length }).end(bytes);
      return;
    }
    await sendResponse({
      shownUpstream,
      response,
      res,
      deadline,
      betweenChunks: upstream.timeouts.betweenChunks,
      meter: new UsageMeter({ answersImages: false }, false, oneAnswer),
      // a success says nothing
      answers: response.status < 300 ? 'text' : undefined,
      asksForStream: false,
      endsInDone: false,
      dropsUsageChunk: false,
      repairsVectors: false,
    });
  }

  /** An answer, when it is stored whose the secret or the call is that it brings. @throws GatewayError `upstream_invalid_response` where it brings none */
  async #ownedBody(upstream: Upstream, response: OutboundResponse, res: ServerResponse): Promise<Buffer> {
    const deadline = this.#deadline;
    if (isEncoded(response.headers)) throw failure('upstream_invalid_response');
    deadline.arm(upstream.timeouts.betweenChunks);
    const { bytes, whole } = await collect(response.data, longestAnswer, () => deadline.reset());
    deadline.disarm();
    if (!whole) throw failure('upstream_invalid_response');
    if (this.#request.call.makes === 'secret') await this.#addSecret(upstream, bytes);
    else await this.#addCall(upstream, response, res);
    return bytes;
  }

  async #addSecret({ name: upstream }: Upstream, answer: Buffer): Promise<void> {
    const { info, apiRequest, transcriptionModel = null } = this.#request;
    const { value, expiresAt, model } = secretIn(answer);
    const { principal } = apiRequest;
    const secret = { upstream, model: info.model ?? model, transcriptionModel, principal, expiresAt };
    await this.#deps.secrets.add(value, secret);
  }

  async #addCall({ name: upstream }: Upstream, { headers }: OutboundResponse, res: ServerResponse): Promise<void> {
    const { info, apiRequest } = this.#request;
    const id = /([^/?#]+)\/?(?:[?#].*)?$/.exec(String(headers.location ?? ''))?.[1];
    if (!isStoredId(id)) throw failure('upstream_invalid_response');
    const { userId } = apiRequest.principal;
    const object = { id, kind: 'realtime_call', userId, upstream, model: info.model ?? null } as const;
    if (!(await this.#deps.relaying.storedObjects.add(object))) throw failure('upstream_invalid_response');
    const { url = '', originalUrl = url } = res.req as IncomingMessage & { readonly originalUrl?: string };
    res.setHeader('location', `${pathOf({ url: originalUrl }).replace(/\/$/, '')}/${id}`);
  }
}

/** What is read of an answer that brings a secret. Nothing in it is certain. */
interface SecretAnswer {
  readonly value?: unknown;
  readonly expires_at?: unknown;
  readonly model?: unknown;
  readonly session?: { readonly model?: unknown } | null;
  readonly client_secret?: { readonly value?: unknown; readonly expires_at?: unknown } | null;
}

/** The secret in an answer, when it expires, and the model of its session. @throws GatewayError `upstream_invalid_response` where it has none */
function secretIn(bytes: Buffer): { readonly value: string; readonly expiresAt: Date; readonly model: string | null } {
  const answer = (parsed(bytes.toString()) ?? {}) as SecretAnswer;
  const { value, expires_at: expires } = answer.value === undefined ? (answer.client_secret ?? {}) : answer;
  if (typeof value !== 'string' || value === '' || typeof expires !== 'number' || !(expires > 0)) {
    throw failure('upstream_invalid_response');
  }
  const model = answer.session?.model ?? answer.model;
  const expiresAt = new Date(Math.min(expires * 1_000, lastDate));
  return { value, expiresAt, model: typeof model === 'string' && model ? model : null };
}
