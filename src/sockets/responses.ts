import { GatewayError, refuse } from '../errors.ts';
import { type Admission, type RequestedCall, requireAllowedModel } from '../proxy/admission.ts';
import { type Fields, isObject } from '../proxy/answer-body.ts';
import { failure, refusesKey } from '../proxy/failure.ts';
import { type HostedTools, readHostedTools, toolEdits } from '../proxy/hosted-tools.ts';
import { type ErrorInside, errorInMessage } from '../proxy/inspect-answer.ts';
import {
  bodyFor,
  checkModelName,
  estimateInput,
  type ModelBody,
  readModelBody,
  shortValue,
} from '../proxy/model-body.ts';
import { routeModel, type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { type ShownObject, shownBy } from '../stored/answer-ids.ts';
import { storedId } from '../stored/kinds.ts';
import { namedObjects, requireOwned, storedReferences } from '../stored/references.ts';
import { originOf } from '../stored/stored-object.ts';
import { type Bridge, orEnd, SocketEnd } from './bridge.ts';
import type { connectUpstream, UpstreamAnswer } from './connect.ts';
import { type ClientEvent, responseIdOf, type UpstreamEvent } from './events.ts';
import type { AskedResponse } from './metered-responses.ts';
import { MeteredSession, type SessionDependencies, type SessionOptions } from './session.ts';
import { remember, snapshot } from './transcribing-models.ts';

/** After these a response goes no further. */
const lastEvents: ReadonlySet<string> = new Set([
  'response.completed',
  'response.failed',
  'response.incomplete',
  'response.cancelled',
]);
/** How many responses of a connection are remembered that its upstream does not keep, and how many models that were asked for. */
const mostRemembered = 100;

interface ResponsesOptions extends SessionOptions {
  /** Opens a socket at another upstream. */
  readonly connect: (
    order: readonly [Upstream, ...Upstream[]],
    model: string | undefined,
  ) => ReturnType<typeof connectUpstream>;
}

/** One `response.create`, read and checked. */
interface ResponseRequest extends RequestedCall {
  readonly body: ModelBody;
  readonly tools: HostedTools | undefined;
  /** Whether the upstream keeps the response. */
  readonly isStored: boolean;
}

/** What is known of the response under way. */
interface CurrentResponse {
  readonly request: ResponseRequest;
  /** Once the upstream has named it. */
  id?: string;
  /** Whether it is stored, or being stored, whose it is. */
  isKept?: boolean;
  /** Its items and their containers. */
  readonly shown: Map<string, ShownObject>;
}

/**
 * Responses that a client asks for one after the other. Each is checked, admitted and charged like a call of its own, and goes to an upstream that serves
 * its model and keeps what it continues.
 */
export class ResponsesSession extends MeteredSession {
  readonly #connect: ResponsesOptions['connect'];
  #current: CurrentResponse | undefined;
  /** What was asked for last of each model, by the upstream's name for it; the latest is the last. */
  readonly #asked = new Map<string | undefined, ResponseRequest>();
  /** How many other events of the client have gone up since then: an error may be about one of them. */
  #othersSent = 0;
  /** The response that has ended in an error. An upstream that goes on with it has meant something else. */
  #failed: CurrentResponse | undefined;
  /** Ids of the responses that only this connection to the upstream knows. */
  readonly #unstored = new Set<string>();

  constructor(deps: SessionDependencies, options: ResponsesOptions) {
    super(deps, options);
    this.#connect = options.connect;
  }

  protected async take(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[]> {
    if (event.type === 'response.create') return this.#ask(event, bridge);
    const keepers = await this.#keepersOf(event);
    if (keepers.includes(this.upstream)) {
      this.#othersSent += 1;
      return event.rawBody;
    }
    const message = 'What this event names is kept by another provider than this WebSocket is connected to';
    throw new GatewayError('invalid_value', message);
  }

  protected async note(event: UpstreamEvent): Promise<void> {
    const id = responseIdOf(event);
    const isLast = lastEvents.has(event.type);
    if (event.type === 'response.created') this.#noteBeginning(event, id);
    else if (event.type.startsWith('response.')) this.#resume(id, isLast);
    await orEnd(this.responses.admit((call) => this.#admitBegun(call)));
    const current = this.#named(id);
    try {
      if (current?.request.isStored) await this.#record(current, event, isLast);
    } finally {
      // it has ended and is charged, also where that cannot be stored
      this.#noteEnd(event, id, isLast);
    }
  }

  #noteEnd(event: UpstreamEvent, id: string | undefined, isLast: boolean): void {
    const error = errorInMessage(event);
    if (isLast) this.#end(id, event.response?.usage, error);
    else if (event.type === 'error' && !this.responses.refused(undefined)) this.#fail(error);
  }

  /** Nothing more comes of a response after an error that can be about nothing else. */
  #fail(error: ErrorInside | undefined): void {
    if (this.#othersSent > 0) {
      this.#othersSent -= 1;
      return;
    }
    const failed = this.#current;
    this.#end(failed?.id, undefined, error);
    this.#failed = failed;
  }

  /** A response has begun: of those that were asked for, the one of the model that the upstream names. */
  #noteBeginning(event: UpstreamEvent, id: string | undefined): void {
    this.#failed = undefined;
    const request = this.#requestOf(event);
    if (!request || request === this.#current?.request) return;
    this.#current = { request, shown: new Map() };
    if (id !== undefined) this.responses.estimated(id, request);
  }

  /** The upstream goes on with a response that has ended in an error. @param id @default that of this response */
  #resume(id: string | undefined, isLast: boolean): void {
    const failed = this.#failed;
    if (failed?.id === undefined || (isLast ? id !== failed.id : this.isBusy)) return;
    this.#failed = undefined;
    this.responses.began(failed.id, { call: failed.request, upstream: this.upstream, admissions: undefined });
    this.#current ??= failed;
  }

  /** The request of a response; where its model is none that was asked for, the latest. */
  #requestOf({ response }: UpstreamEvent): ResponseRequest | undefined {
    const model = typeof response?.model === 'string' ? response.model : '';
    return this.#asked.get(model) ?? this.#asked.get(model.replace(snapshot, '')) ?? [...this.#asked.values()].at(-1);
  }

  /** One has begun that was held for refused, by an error that was about another event. */
  async #admitBegun(call: RequestedCall): Promise<readonly Admission[]> {
    await this.caller.requireKey();
    return this.caller.admit(call);
  }

  #end(id: string | undefined, usage: unknown, error: ErrorInside | undefined): void {
    if (!this.isBusy && !usage) return;
    this.responses.ended(id, usage, error);
    if (id !== undefined && !this.#current?.request.isStored) {
      this.#unstored.add(id);
      const [oldest = ''] = this.#unstored;
      if (this.#unstored.size > mostRemembered) this.#unstored.delete(oldest);
    }
    this.#current = undefined;
  }

  /** @throws GatewayError where the event is refused; SocketEnd where the client may not go on */
  async #ask(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[]> {
    await this.requireKey(bridge);
    if (this.isBusy) {
      throw new GatewayError('response_in_progress', 'A response is under way on this WebSocket; wait for its end');
    }
    const request = await this.#readResponseRequest(event);
    if (request.isStored) this.deps.storedObjects.require();
    const keepers = await this.#keepersOf(event);
    const admissions = await this.caller.admit(request);
    let upstreamModel: string | undefined;
    try {
      upstreamModel = await this.#route(request, keepers, bridge);
    } catch (error) {
      for (const admission of admissions) admission.dropped();
      throw error;
    }
    this.responses.asked({ call: request, upstream: this.upstream, admissions, eventId: event.eventId });
    this.#current = { request, shown: new Map() };
    this.#othersSent = 0;
    remember(this.#asked, upstreamModel, request);
    return bodyFor(
      event.rawBody,
      request.body,
      upstreamModel,
      false,
      request.tools && toolEdits(request.tools, this.upstream),
    );
  }

  /** @throws GatewayError `invalid_value`, `model_not_allowed` */
  async #readResponseRequest({ rawBody, fields, body: parsed }: ClientEvent): Promise<ResponseRequest> {
    const { caller } = this;
    const body = readModelBody({ rawBody, fields, body: parsed as object }, caller.call(undefined).endpoint);
    checkModelName(body.model);
    requireAllowedModel(caller.principal, body.model);
    const tools = await readHostedTools({ rawBody, fields, body: parsed as object }, caller.principal);
    if (shortValue(rawBody, fields.get('background')) === true) {
      refuse('invalid_value', 'background', 'must not be true on a WebSocket; send the request over HTTP');
    }
    const isStored = shortValue(rawBody, fields.get('store')) !== false;
    const info = caller.call(body.model);
    const output = tools?.requested ? { ...body.output, tools: tools.requested } : body.output;
    return { info, estimatedTokens: estimateInput(rawBody, body), output, body, tools, isStored };
  }

  /** The upstreams that keep what an event refers to. @throws GatewayError where that is not the account's own */
  async #keepersOf(event: ClientEvent): Promise<readonly Upstream[]> {
    // some readers take the fields of a response there, too
    const nested = event.fields.get('response');
    if (nested && shortValue(event.rawBody, nested) !== null) {
      refuse('invalid_value', 'response', 'must not be given; its fields stand in the event itself');
    }
    const named = [...(await namedObjects(event)), ...storedReferences(event)];
    const references = named.filter(({ kind, id }) => kind !== 'response' || !this.#unstored.has(id));
    // only this connection knows what its upstream does not keep
    const upstreams = references.length < named.length ? [this.upstream] : this.deps.upstreams;
    const owner = { ...event, principal: this.caller.principal };
    const referred = { references, itemsIn: 'input' };
    return (await requireOwned(this.deps.storedObjects, owner, referred, upstreams)).keepers;
  }

  /** Goes to an upstream that can answer the request. @returns its name for the model */
  async #route(
    { info, tools }: ResponseRequest,
    keepers: readonly Upstream[],
    bridge: Bridge,
  ): Promise<string | undefined> {
    const change = await this.deps.hooks?.onRequest(info);
    const model = change?.model ?? info.model;
    const { userId } = this.caller.principal;
    const { models } = this.deps.storedObjects;
    const order = await routeModel(keepers, model, userId, models);
    for (const { name } of tools?.models ?? []) models.requireOpen(name, userId, order);
    if (!order.includes(this.upstream)) {
      const { upstream, answer } = await this.#connect(order, model);
      if (!answer.socket) throw failureOf(answer);
      bridge.switchTo(answer.socket);
      this.upstream = upstream;
      this.#unstored.clear();
    }
    return model === undefined ? undefined : upstreamModelName(this.upstream, model);
  }

  /** The response under way, whose id an event may have. @throws SocketEnd where no account could own it: each of its events is refused */
  #named(id: string | undefined): CurrentResponse | undefined {
    const current = this.#current;
    if (!current) return undefined;
    if (id !== undefined) current.id ??= id;
    if (current.request.isStored && id !== undefined && !storedId.test(current.id as string)) {
      throw new SocketEnd(failure('upstream_invalid_response'));
    }
    return current;
  }

  /** Stores whose a response and its items are, before the client is shown them. @throws SocketEnd when that cannot be stored */
  async #record(current: CurrentResponse, event: UpstreamEvent, isLast: boolean): Promise<void> {
    const { storedObjects } = this.deps;
    const { principal, endpoint } = this.caller.call(undefined);
    const { id, shown } = current;
    const object = {
      userId: principal.userId,
      upstream: this.upstream.name,
      model: current.request.info.model ?? null,
      origin: originOf(principal.keyId, endpoint),
    };
    if (id !== undefined && !current.isKept) {
      current.isKept = true;
      await orEnd(storedObjects.add({ id, kind: 'response', ...object }));
    }
    for (const item of itemsOf(event).flatMap(shownBy)) shown.set(`${item.kind} ${item.id}`, item);
    if (isLast && shown.size > 0) {
      await storedObjects.addShown([...shown.values()], { ...object, ...(id !== undefined && { id }) });
    }
  }

  protected unasked(event?: UpstreamEvent): AskedResponse {
    const call = (event && this.#requestOf(event)) ?? this.requested(undefined);
    return { call, upstream: this.upstream, admissions: undefined };
  }
}

function itemsOf({ item, response }: UpstreamEvent): readonly Fields[] {
  const output: readonly unknown[] = Array.isArray(response?.output) ? response.output : [];
  return [item, ...output].filter(isObject);
}

/** The error for an upstream that takes no socket in the middle of one. */
function failureOf({ status }: UpstreamAnswer): GatewayError {
  if (refusesKey(status)) return failure('upstream_auth_failed');
  return failure(status === 429 ? 'upstream_rate_limited' : 'upstream_error');
}
