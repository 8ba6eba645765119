import { isGatewayError } from '../errors.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import { oneAnswer, type RequestedCall } from '../proxy/admission.ts';
import { failure, isMasked, loggableError, maskedError } from '../proxy/failure.ts';
import { errorInMessage } from '../proxy/inspect-answer.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import type { Upstream } from '../proxy/upstream.ts';
import type { StoredObjects } from '../stored/service.ts';
import { type Bridge, errorEvent, type Message, type SocketSession } from './bridge.ts';
import type { SocketCaller } from './caller.ts';
import { type ClientEvent, readClientEvent, readUpstreamEvent, type UpstreamEvent } from './events.ts';
import { type AskedResponse, MeteredResponses } from './metered-responses.ts';

/** What sessions are relayed with: as calls of models, and the records of what upstreams keep. */
export interface SessionDependencies extends RelayDependencies {
  readonly storedObjects: StoredObjects;
}

export interface SessionOptions {
  readonly caller: SocketCaller;
  /** The upstream that has taken the socket. */
  readonly upstream: Upstream;
  /** Of the client's events. */
  readonly shape: BodyShape;
}

/** The part of a session that both endpoints share. */
export abstract class MeteredSession implements SocketSession {
  protected readonly deps: SessionDependencies;
  protected readonly caller: SocketCaller;
  protected readonly responses: MeteredResponses;
  upstream: Upstream;
  readonly #shape: BodyShape;

  constructor(deps: SessionDependencies, { caller, upstream, shape }: SessionOptions) {
    this.deps = deps;
    this.caller = caller;
    this.upstream = upstream;
    this.#shape = shape;
    this.responses = new MeteredResponses(deps, caller.principal, (event) => this.unasked(event));
  }

  get isBusy(): boolean {
    return this.responses.isBusy;
  }

  async fromClient(message: Message, bridge: Bridge): Promise<void> {
    const event = await readClientEvent(message, this.#shape);
    if (!event) return this.takeBytes(message, bridge);
    try {
      const data = await this.take(event, bridge);
      if (data === undefined) return;
      await bridge.toUpstream({ ...message, data: Buffer.isBuffer(data) ? data : Buffer.concat(data) });
    } catch (error) {
      if (!isGatewayError(error)) throw error;
      await bridge.report(error, event.eventId);
    }
  }

  async fromUpstream(message: Message, bridge: Bridge): Promise<void> {
    const event = readUpstreamEvent(message);
    if (!event) return bridge.toClient(message);
    this.responses.saw(event);
    // whether or not the client reads
    await this.note(event, bridge);
    await bridge.toClient(this.masked(message, event));
  }

  /**
   * Requires that the client may begin something.
   * @throws GatewayError where the gateway closes; SocketEnd where the key is not good any more
   */
  protected async requireKey(bridge: Bridge): Promise<void> {
    if (bridge.isClosing) throw failure('shutting_down');
    await this.caller.requireKey();
  }

  check(): Promise<void> {
    return this.caller.requireKey();
  }

  ended(hasLeft: boolean): void {
    this.responses.endAll(hasLeft ? 'client_left' : 'upstream_failed');
  }

  /** Takes an event of the client's. @returns what goes up, if anything. @throws GatewayError where it is refused */
  protected abstract take(event: ClientEvent, bridge: Bridge): Promise<Buffer | readonly Buffer[] | undefined>;

  /** Takes bytes of the client's that are no event. */
  protected takeBytes(message: Message, bridge: Bridge): Promise<void> {
    return bridge.toUpstream(message);
  }

  /** Notes what an event of the upstream's says, before the client gets it. */
  protected abstract note(event: UpstreamEvent, bridge: Bridge): Promise<void>;

  /** A response that the client has not asked for. */
  protected abstract unasked(event?: UpstreamEvent): AskedResponse;

  /** A response, as checks see it before anything is known of it. */
  protected requested(model: string | undefined, estimatedTokens = 0): RequestedCall {
    return { info: this.caller.call(model), estimatedTokens, output: oneAnswer };
  }

  /** A message as the client may see it: where errors of its upstream are masked, with a plain error in the place of one. */
  private masked(message: Message, event: UpstreamEvent): Message {
    const { upstream, caller, deps } = this;
    const status = errorInMessage(event)?.status;
    if (status === undefined || !isMasked(upstream, status)) return message;
    const body = loggableError(message.data.toString(), true, upstream.headers.fixed);
    const error = maskedError({ upstream, status, requestId: caller.requestId, body }, deps.logger);
    const causedBy = eventIdOf(event);
    const text =
      event.type === 'error' ? errorEvent(error, causedBy) : JSON.stringify(withError(event, error.toBody().error));
    return { ...message, data: Buffer.from(text) };
  }
}

/** The event of the client's that an error is about. */
export function eventIdOf({ error }: UpstreamEvent): string | undefined {
  return typeof error?.event_id === 'string' ? error.event_id : undefined;
}

/** A realtime session has the error of a response in its details, and the Responses API beside its status. Other events have it themselves. */
function withError(event: UpstreamEvent, error: object): object {
  const { type, response } = event;
  if (!response) return { ...event, error };
  const said = type === 'response.done' ? { status_details: { type: 'failed', error } } : { error };
  return { ...event, response: { ...response, ...said } };
}
