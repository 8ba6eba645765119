import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { type ErrorCode, GatewayError, refuse } from '../errors.ts';
import {
  AccountMemory,
  createInFlightLimit,
  type InFlightLimit,
  MemoryReservation,
} from '../fairness/account-shares.ts';
import { requireScope } from '../http/authentication.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import type { EndedRequest, RequestObserver } from '../http/operation.ts';
import { answerError } from '../http/reply.ts';
import { ClientDisconnect, requestId, requireOneHost, searchOf } from '../http/request.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import { noClient } from '../outbound/deadline.ts';
import { InFlight, PendingWork } from '../pending-work.ts';
import { oneAnswer, requestAdmission, requireAllowedModel, settle } from '../proxy/admission.ts';
import { failure } from '../proxy/failure.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { callReference, requireOwned } from '../stored/references.ts';
import { Bridge, closeCode, type SocketSession } from './bridge.ts';
import { SocketCaller } from './caller.ts';
import { connectUpstream, type SocketLimits, type UpstreamSocketRequest } from './connect.ts';
import { realtimeShape, responsesShape } from './events.ts';
import {
  createAccept,
  type Handshake,
  readSubprotocols,
  requireHandshake,
  requireOwnPage,
  responseOver,
  type SocketEndpoint,
  sendRefusal,
  socketEndpointOf,
} from './handshake.ts';
import { readQuery, type SessionQuery } from './query.ts';
import { RealtimeSession } from './realtime.ts';
import { ResponsesSession } from './responses.ts';
import { modelWith, type RealtimeSecrets, requireGoodSecret, routeSession } from './secrets.ts';
import type { SessionDependencies } from './session.ts';
import type { CountedSocket } from './socket-memory.ts';
import { TranslationSession } from './translations.ts';

export interface SocketDependencies {
  /** What calls are relayed with. */
  readonly relaying: SessionDependencies;
  /** Says whose a key is. @throws GatewayError */
  readonly authenticate: (req: IncomingMessage, isModelCall: boolean) => Promise<Principal>;
  /** The secrets with which clients open realtime sessions, in place of keys. */
  readonly secrets: RealtimeSecrets;
  readonly spec: Spec;
  /** The longest message. Bytes. */
  readonly maxSocketMessageBytes: number;
  /** Where what sockets hold is counted. @default no limit */
  readonly bodyMemory?: AccountMemory;
  /** The most sockets that an account has open in this process. */
  readonly maxSockets: number;
  /** How long a socket may be without a message. Milliseconds. */
  readonly socketIdleTimeout: number;
  /**
   * How often each side is asked whether it is still there, and the key is checked again; also how long it may take to answer a close frame.
   * Milliseconds. @default 30_000
   */
  readonly pingInterval?: number;
  /** Told of each socket that has ended, and of each handshake that was refused. */
  readonly observers: readonly RequestObserver[];
  readonly logger: Logger;
}

interface AttachOptions {
  /** The path that the router is mounted under, such as `/api`. @default the root */
  readonly prefix?: string;
}

/** A message may come in this many frames, and in one for this many bytes, which is what clients write at once. */
const mostFrames = 4_096;
const bytesPerFrame = 4_096;

/** How long close frames may take to be answered when the gateway closes. Milliseconds. */
const closeTimeout = 1_000;

/**
 * Bun puts a module of its own in the place of `ws`. That does not show the connections below its WebSockets, whose bytes are counted here.
 * @throws GatewayError `websocket_not_served`
 */
function requireWs(): void {
  if (process.versions.bun === undefined) return;
  throw new GatewayError(
    'websocket_not_served',
    'The gateway serves no WebSockets on Bun, which replaces the package ws',
  );
}

/** The WebSockets of a gateway: each of a client's is joined with one of an upstream's. */
export class Sockets {
  readonly #deps: SocketDependencies;
  readonly #limit: InFlightLimit;
  readonly #memory: AccountMemory;
  readonly #accept: ReturnType<typeof createAccept>;
  readonly #shapes: Readonly<Record<SocketEndpoint['path'], BodyShape>>;
  readonly #pingInterval: number;
  readonly #limits: SocketLimits;
  readonly #open = new InFlight<Bridge>();
  /** Ends the opening of a socket at an upstream, of each that is being opened. */
  readonly #opening = new InFlight<() => void>();
  /** Handshakes and sockets. */
  readonly #underWay = new PendingWork();
  /** What takes the handshakes of a server away again, of each that was attached. */
  readonly #detach: (() => void)[] = [];
  #isClosing = false;

  constructor(deps: SocketDependencies) {
    this.#deps = deps;
    this.#limit = createInFlightLimit(deps.maxSockets, 'WebSockets');
    this.#memory = deps.bodyMemory ?? new AccountMemory();
    this.#pingInterval = deps.pingInterval ?? 30_000;
    const maxPayload = deps.maxSocketMessageBytes;
    const maxFragments = Math.max(mostFrames, maxPayload / bytesPerFrame);
    this.#limits = { maxPayload, maxFragments, closeTimeout: this.#pingInterval };
    this.#accept = createAccept(this.#limits);
    const realtime = realtimeShape(deps.spec);
    this.#shapes = {
      ...{ '/realtime': realtime, '/realtime/translations': realtime },
      '/responses': responsesShape(deps.spec),
    };
  }

  /** Takes a request to upgrade a connection if it asks for a WebSocket of the gateway's. @returns whether it does */
  upgrade(req: IncomingMessage, socket: ClientSocket, head: Buffer): boolean {
    const endpoint = socketEndpointOf(req);
    if (!endpoint) return false;
    if (socket._httpMessage) {
      // a client that does not wait for the answer before could not tell it from this one
      socket.destroy();
      return true;
    }
    this.#underWay.add(this.#serve(endpoint, req, socket, head));
    return true;
  }

  /** Takes those requests from a server. @throws GatewayError `invalid_value` for a prefix that is no path, `websocket_not_served` on Bun */
  attach(server: Server, { prefix = '' }: AttachOptions = {}): void {
    requireWs();
    if (!/^(\/[^/?#]+)*$/.test(prefix)) refuse('invalid_value', 'prefix', "must be a path such as '/api'");
    const onUpgrade = (req: IncomingMessage, socket: Duplex, head: Buffer): void => {
      const { url = '' } = req;
      if (prefix === '' || url.startsWith(`${prefix}/`)) {
        req.url = url.slice(prefix.length);
        if (this.upgrade(req, socket, head)) return;
        req.url = url;
      }
      if (server.listenerCount('upgrade') === 1) serveWithoutUpgrade(server, req, socket, head);
    };
    server.on('upgrade', onUpgrade);
    this.#detach.push(() => server.off('upgrade', onUpgrade));
  }

  /**
   * Refuses new sockets from now on, and closes each when its response has ended, or after `maxWait` milliseconds. Leaves its servers then, so that another
   * gateway can be attached to them.
   */
  async drain(maxWait: number): Promise<void> {
    this.#isClosing = true;
    for (const stop of this.#opening) stop();
    for (const bridge of this.#open) bridge.closeWhenIdle(closeCode.goingAway, 'shutting_down');
    await this.#underWay.done(maxWait);
    for (const bridge of this.#open) bridge.fail(failure('shutting_down'), closeCode.goingAway);
    await this.#underWay.done(closeTimeout);
    for (const bridge of this.#open) bridge.terminate();
    await this.#underWay.done(closeTimeout);
    for (const detach of this.#detach.splice(0)) detach();
  }

  /** Takes a handshake through all its steps, and its socket to its end. Never rejects. */
  async #serve(endpoint: SocketEndpoint, req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { observers, logger } = this.#deps;
    const startedAt = performance.now();
    // what has gone wrong with the connection, its end tells too
    socket.on('error', () => {});
    const res = responseOver(req, socket);
    const id = requestId(req.headers, res);
    const client = new ClientDisconnect(res, () => {});
    const handshake = { endpoint, req, res, socket, head, id, client, relayed: {} };
    let principal: Principal | undefined;
    let code: ErrorCode | undefined;
    let leave: (() => void) | undefined;
    try {
      res.setHeader('x-request-id', id);
      res.setHeader('cache-control', 'no-store');
      if (this.#isClosing) throw failure('shutting_down');
      requireWs();
      requireOneHost(req.headers, req.rawHeaders);
      requireHandshake(req);
      readSubprotocols(req);
      requireOwnPage(req);
      const authenticate = await this.#authentication(endpoint, req);
      principal = await authenticate();
      leave = this.#limit.enter(principal.userId);
      code = await this.#connect(handshake, principal, authenticate);
    } catch (error) {
      if (!client.disconnected) code = answerError(req, res, error, { requestId: id, logger });
    } finally {
      leave?.();
      const ended: EndedRequest = {
        requestId: id,
        method: 'GET',
        operation: endpoint.operation,
        principal,
        status: statusOf(res, client),
        code,
        clientDisconnected: client.disconnected,
        durationMs: performance.now() - startedAt,
        relayed: handshake.relayed,
      };
      for (const observer of observers) observer.ended(ended);
    }
  }

  /** What says who the caller is, now and again later. What it gives throws a GatewayError where that may not call models. */
  async #authentication({ isSession }: SocketEndpoint, req: IncomingMessage): Promise<() => Promise<Principal>> {
    const { authenticate, secrets } = this.#deps;
    const secret = isSession ? await secrets.find(req) : undefined;
    return async () => {
      const principal = await (secret ? secrets.authenticate(secret) : authenticate(req, true));
      requireScope(principal, 'models');
      return principal;
    };
  }

  /**
   * Has the socket admitted, opens one at an upstream, and joins the two; resolves when both have ended.
   * @param authenticate says again who the caller is
   * @returns the code of the error that has ended them
   * @throws GatewayError where the client gets no socket
   */
  async #connect(
    handshake: Handshake,
    principal: Principal,
    authenticate: () => Promise<Principal>,
  ): Promise<ErrorCode | undefined> {
    const { endpoint, req, res, id, relayed } = handshake;
    const { relaying, logger, secrets } = this.#deps;
    const secret = secrets.of(principal);
    const query = readQuery(searchOf(req.url ?? ''));
    const { model, keepers } = await this.#target(endpoint, query, principal);
    if (model !== undefined) relayed.model = model;
    const { isSession } = endpoint;
    const caller = new SocketCaller(
      { principal, requestId: id, endpoint: endpoint.path, model: isSession ? model : undefined },
      authenticate,
      relaying,
    );
    const info = caller.call(model);
    const requested = { info, estimatedTokens: 0, output: oneAnswer };
    let admissions = await requestAdmission(relaying.admissionChecks, requested, res);
    try {
      const calledModel = (isSession ? await relaying.hooks?.onRequest(info) : undefined)?.model ?? model;
      const request = {
        ...{ info, headers: req.headers, search: query.search, isSecret: secret !== undefined },
        ...{ client: handshake.client, limits: this.#limits },
      };
      const { models } = relaying.storedObjects;
      const order = await routeSession(secret, keepers, calledModel, principal.userId, models);
      const queryModel = query.model === undefined ? undefined : calledModel;
      const { upstream, answer } = await this.#openUpstream(order, { ...request, model: queryModel });
      relayed.upstream = upstream.name;
      if (relaying.exposeUpstream) res.setHeader('x-gateway-upstream', upstream.name);
      if (!answer.socket) {
        requireGoodSecret(secret, answer.status);
        sendRefusal(handshake, upstream, answer, logger);
        return undefined;
      }
      const client = this.#acceptClient(handshake, answer.socket);
      if (!client) return undefined;
      const shape = this.#shapes[endpoint.path];
      const connect = (others: readonly [Upstream, ...Upstream[]], called: string | undefined) =>
        this.#openUpstream(others, { ...request, search: '', model: called, client: noClient });
      const transcriptionModel = secret?.transcriptionModel ?? undefined;
      const options = { caller, upstream, model, calledModel, admissions, shape, transcriptionModel };
      let session: SocketSession;
      if (endpoint.path === '/realtime') session = new RealtimeSession(relaying, options);
      else if (isSession) session = new TranslationSession(relaying, options);
      else session = new ResponsesSession(relaying, { caller, upstream, shape, connect });
      // without a session that takes them, each response is admitted for itself
      if (!isSession) settle(relaying, { admissions }, undefined);
      admissions = [];
      return await this.#join(client, answer.socket, session, principal.userId);
    } finally {
      settle(relaying, { admissions }, undefined);
    }
  }

  /**
   * The model that a socket is for, and the upstreams that may take it.
   * @throws GatewayError `invalid_value`, `model_not_allowed`, `realtime_call_not_found`
   */
  async #target({ path, isSession }: SocketEndpoint, { callId, model: named }: SessionQuery, principal: Principal) {
    const { storedObjects, upstreams } = this.#deps.relaying;
    const secret = this.#deps.secrets.of(principal);
    if (path === '/realtime/translations' && callId !== undefined) {
      refuse('invalid_value', 'call_id', 'must be left out: a translation over WebRTC has no WebSocket beside it');
    }
    if (isSession && callId !== undefined) {
      // what a call says may be more than its own client was given a secret for
      if (secret) refuse('invalid_value', 'call_id', 'needs an API key in place of an ephemeral secret');
      const references = [callReference(callId)];
      const nothing = { principal, rawBody: Buffer.alloc(0), fields: new Map() };
      const { objects, keepers } = await requireOwned(storedObjects, nothing, { references }, upstreams);
      const model = objects[0]?.model ?? undefined;
      requireAllowedModel(principal, model);
      return { model, keepers };
    }
    const model = modelWith(secret, named);
    // the models of responses are named with each of them
    if (isSession || model !== undefined) requireAllowedModel(principal, model);
    return { model, keepers: upstreams };
  }

  /** Opens a socket at an upstream, unless the gateway closes meanwhile. @throws GatewayError `shutting_down`, and as for any call */
  async #openUpstream(order: readonly [Upstream, ...Upstream[]], request: UpstreamSocketRequest) {
    let stop = (): void => {};
    const { client } = request;
    const isClosing = (): boolean => this.#isClosing;
    const whileOpen: UpstreamSocketRequest['client'] = {
      get disconnected() {
        return client.disconnected || isClosing();
      },
      onDisconnect(listener) {
        stop = () => listener?.();
        client.onDisconnect(listener);
      },
    };
    const end = (): void => stop();
    this.#opening.add(end);
    try {
      return await connectUpstream(this.#deps.relaying, order, { ...request, client: whileOpen });
    } catch (error) {
      throw this.#isClosing ? failure('shutting_down') : error;
    } finally {
      this.#opening.delete(end);
    }
  }

  /** The client's side; `undefined` where the client has left. @throws GatewayError `shutting_down` */
  #acceptClient(handshake: Handshake, upstream: CountedSocket): CountedSocket | undefined {
    const client = this.#isClosing ? undefined : this.#accept(handshake);
    if (client) return client;
    upstream.terminate();
    if (this.#isClosing) throw failure('shutting_down');
    return undefined;
  }

  #join(
    client: CountedSocket,
    upstream: CountedSocket,
    session: SocketSession,
    userId: string,
  ): Promise<ErrorCode | undefined> {
    const { socketIdleTimeout: idleTimeout, logger } = this.#deps;
    const pingInterval = this.#pingInterval;
    return new Promise((resolve) => {
      const bridge: Bridge = new Bridge(client, upstream, session, {
        idleTimeout,
        pingInterval,
        memory: new MemoryReservation(this.#memory, userId),
        onEnded: (error) => {
          this.#open.delete(bridge);
          resolve(error?.code);
        },
        logger,
      });
      this.#open.add(bridge);
    });
  }
}

/** A connection, with the response in progress on it, as Node has it. */
type ClientSocket = Duplex & Partial<Pick<Socket, 'setTimeout'>> & { readonly _httpMessage?: ServerResponse | null };

/** `undefined` where the client got no answer. */
function statusOf(res: ServerResponse, client: ClientDisconnect): number | undefined {
  if (res.headersSent) return res.statusCode;
  return client.disconnected ? undefined : 101;
}

/** How many headers Node keeps of a request, unless the server says otherwise. */
const defaultHeadersCount = 1_000;

/** These headers ask for the upgrade, and belong to the connection alone (RFC 9110, section 7.8). */
const upgradeHeaders: ReadonlySet<string> = new Set(['upgrade', 'connection', 'http2-settings']);

/**
 * Serves a request as if nobody listened to upgrades: without a listener, Node ignores `Upgrade` (RFC 9110, section 7.8), and with one it
 * reads no further, not even the body. So the request is given to the server once more, without what asks for the upgrade.
 */
function serveWithoutUpgrade(server: Server, req: IncomingMessage, socket: ClientSocket, head: Buffer): void {
  const { rawHeaders, method, url, httpVersion } = req;
  // further ones may have been dropped, such as the length of a body, which would then be taken for the next request
  const most = server.maxHeadersCount ?? defaultHeadersCount;
  if (most > 0 && rawHeaders.length / 2 >= most) {
    socket.end('HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  if (/\bclose\b/i.test(req.headers.connection ?? '')) lines.push('Connection: close');
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (!upgradeHeaders.has(name.toLowerCase())) lines.push(`${name}: ${rawHeaders[i + 1]}`);
  }
  const serve = (): void => {
    if (socket.destroyed) return;
    socket.setTimeout?.(0);
    socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
    server.emit(socket instanceof TLSSocket ? 'secureConnection' : 'connection', socket);
  };
  // answers go out in the order of their requests
  if (socket._httpMessage) socket._httpMessage.once('close', serve);
  else serve();
}
