import { WebSocket } from 'ws';
import { describeThrown, GatewayError, isGatewayError } from '../errors.ts';
import type { MemoryReservation } from '../fairness/account-shares.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../options/options.ts';
import { failure, loggableError } from '../proxy/failure.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { type CountedSocket, SocketMemory } from './socket-memory.ts';

/** One message of a WebSocket, as it came. */
export interface Message {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

/** What reads and judges the messages of one socket. */
export interface SocketSession {
  /** Called with each message of the client's, one after the other. It may throw a GatewayError, which the client gets as an event. */
  fromClient(message: Message, bridge: Bridge): Promise<void>;
  /** Called with each message of the upstream's, one after the other. */
  fromUpstream(message: Message, bridge: Bridge): Promise<void>;
  /** Called whenever the sides are pinged. @throws SocketEnd when the client may not go on */
  check(): Promise<void>;
  /** Both sides are closed. */
  ended(hasLeft: boolean): void;
  /** Whether a response is under way. */
  readonly isBusy: boolean;
  /** The upstream that the client is joined with. */
  readonly upstream: Pick<Upstream, 'maskErrors' | 'timeouts'>;
}

export interface BridgeOptions {
  /** How long a socket may be without a message. Milliseconds. */
  readonly idleTimeout: number;
  /** How often each side is asked whether it is still there. Milliseconds. */
  readonly pingInterval: number;
  /** What it may hold. */
  readonly memory: MemoryReservation;
  /** Called when both sides are closed. @param error what has ended it, if that was an error */
  readonly onEnded: (error: GatewayError | undefined) => void;
  readonly logger: Logger;
}

/** Ends a socket: the client gets the error as an event, then the socket is closed. */
export class SocketEnd extends Error {
  readonly error: GatewayError;

  constructor(error: GatewayError) {
    super(error.message, { cause: error });
    this.error = error;
  }
}

/** Awaits what a socket cannot go on without: where it is refused, the socket ends. */
export async function orEnd<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isGatewayError(error) ? new SocketEnd(error) : error;
  }
}

/** How much waits for a side before the other side is no longer read. Bytes. */
const highWater = 1024 * 1024;

/** What a message takes beside its bytes while it waits to be handled. Bytes. */
const messageCost = 256;

/** The codes of close frames (RFC 6455, section 7.4.1). */
export const closeCode = { normal: 1000, goingAway: 1001, policy: 1008, internal: 1011, tryAgainLater: 1013 } as const;

/** An error as clients of both endpoints read it. @param causedBy the `event_id` of the client's event that is refused */
export function errorEvent(error: GatewayError, causedBy?: string): string {
  const { status, headers } = error;
  const body = { ...error.toBody().error, event_id: causedBy ?? null };
  // a message has no headers, so those that say when to try again are in it
  const said = Object.keys(headers).length > 0 ? { status, headers } : { status };
  return JSON.stringify({ type: 'error', event_id: newId('evt', Date.now()), ...said, error: body });
}

/** Whether a close frame may have this code: 1005 and 1006 stand for a frame that has none, and for none at all. */
function isSendable(code: number): boolean {
  return (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999);
}

function closeWith(socket: WebSocket, code: number, reason: Buffer | string = ''): void {
  if (socket.readyState >= WebSocket.CLOSING) return;
  // a paused socket would not read the other side's close frame
  socket.resume();
  if (isSendable(code)) socket.close(code, reason);
  else socket.close();
}

/** Sends a message. Where so much waits that its sender must not be read, it resolves when the message has left. */
async function send(socket: WebSocket, { data, isBinary }: Message): Promise<void> {
  if (socket.readyState !== WebSocket.OPEN) return;
  // also called, with an error, when the socket closes
  const sent = new Promise<void>((resolve) => {
    socket.send(data, { binary: isBinary, compress: false }, () => resolve());
  });
  if (socket.bufferedAmount > highWater) await sent;
}

/** The messages of one side, each handled when those before it are. While some wait, the side is not read. */
class MessageFlow {
  readonly #source: CountedSocket;
  readonly #handle: (message: Message) => Promise<void>;
  readonly #memory: SocketMemory;
  readonly #waiting: Message[] = [];
  #running: Promise<void> | undefined;
  /** Of the message that is being handled, what is not passed on yet. Bytes. */
  #handling = 0;

  /** @param handle must not reject */
  constructor(source: CountedSocket, handle: (message: Message) => Promise<void>, memory: SocketMemory) {
    this.#source = source;
    this.#handle = handle;
    this.#memory = memory;
    source.on('message', (data: Buffer, isBinary) => {
      this.#waiting.push({ data, isBinary });
      memory.wait(data.length + messageCost);
      if (!this.#running) {
        this.#running = this.#handleAll();
        return;
      }
      source.pause();
      // of short ones, many come in one chunk
      memory.grow(source);
    });
    source.resume();
  }

  /** Resolves when everything that has come is handled. */
  async handled(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Sends what has become of the message that is being handled to the other side, which holds it from now on. While too much waits there, this side is not read. */
  passOn(target: WebSocket, message: Message): Promise<void> {
    const isHandling = this.#handling > 0;
    this.#release();
    const sent = send(target, message);
    // it is read again when the message has been handled
    if (isHandling && target.bufferedAmount > highWater) this.#source.pause();
    return sent;
  }

  #release(): void {
    this.#memory.wait(-this.#handling);
    this.#handling = 0;
  }

  async #handleAll(): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      this.#handling = next.data.length + messageCost;
      await this.#handle(next);
      this.#release();
      this.#memory.shrink();
    }
    this.#running = undefined;
    this.#source.resume();
  }
}

/**
 * Joins a client's WebSocket with an upstream's: messages pass both ways as they came, no faster than the receiving side reads, and
 * the end of one side ends the other.
 */
export class Bridge {
  readonly #client: CountedSocket;
  #upstream: CountedSocket;
  readonly #memory: SocketMemory;
  readonly #session: SocketSession;
  readonly #options: BridgeOptions;
  readonly #fromClient: MessageFlow;
  #fromUpstream: MessageFlow;
  #lastMessageAt = performance.now();
  #idleTimer: NodeJS.Timeout;
  readonly #pings: NodeJS.Timeout;
  readonly #answering = new WeakSet<WebSocket>();
  /** Whether the gateway has ended the client's side; what is under way at the upstream may go on. */
  #isDismissed = false;
  /** Whether both sides are being closed. */
  #isEnding = false;
  #isFinished = false;
  /** What has ended it, if that was an error. */
  #error: GatewayError | undefined;
  /** Whether the client has closed its side first. */
  #hasLeft = false;
  /** With what the socket is closed when no response is under way any more. */
  #closing: { readonly code: number; readonly reason: Buffer | string } | undefined;

  constructor(client: CountedSocket, upstream: CountedSocket, session: SocketSession, options: BridgeOptions) {
    this.#client = client;
    this.#upstream = upstream;
    this.#session = session;
    this.#options = options;
    this.#memory = new SocketMemory(options.memory, (socket, error) => this.#endForMemory(socket, error));
    this.#watch(client);
    this.#fromClient = new MessageFlow(client, (message) => this.#takeFromClient(message), this.#memory);
    this.#fromUpstream = this.#listenToUpstream(upstream);
    client.on('close', (code, reason) => this.#clientClosed(code, reason));
    this.#pings = setInterval(() => this.#ping(), options.pingInterval);
    this.#idleTimer = this.#awaitIdle(options.idleTimeout);
  }

  /** Whether it closes when no response is under way any more. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Sends a message up; resolves when more may follow. */
  toUpstream(message: Message): Promise<void> {
    return this.#fromClient.passOn(this.#upstream, message);
  }

  /** The same, down to the client. */
  toClient(message: Message): Promise<void> {
    return this.#fromUpstream.passOn(this.#client, message);
  }

  /** Goes on with another upstream. To be called while no response is under way. @throws GatewayError where the socket has ended meanwhile */
  switchTo(upstream: CountedSocket): void {
    if (this.#isEnding || this.#client.readyState !== WebSocket.OPEN) {
      upstream.terminate();
      throw failure('upstream_disconnected');
    }
    const before = this.#upstream;
    this.#upstream = upstream;
    this.#fromUpstream = this.#listenToUpstream(upstream);
    // this one may be given less time, from now on: once the session knows of it, which is after this turn
    this.#lastMessageAt = performance.now();
    clearTimeout(this.#idleTimer);
    this.#idleTimer = this.#awaitIdle(0);
    closeWith(before, closeCode.normal);
  }

  /** Sends the upstream an event of the gateway's own. */
  ask(event: object): Promise<void> {
    return send(this.#upstream, { data: Buffer.from(JSON.stringify(event)), isBinary: false });
  }

  /** Tells the client of an error; the socket stays open. */
  report(error: GatewayError, causedBy?: string): Promise<void> {
    return send(this.#client, { data: Buffer.from(errorEvent(error, causedBy)), isBinary: false });
  }

  /** Tells the client of an error, and closes both sides: of what is under way nothing more is learned. */
  fail(error: GatewayError, code: number): void {
    if (this.#isEnding) return;
    this.#error ??= error;
    void this.report(error);
    this.#end(code, error.code);
  }

  /** Tells the client of an error, and closes its side. What is under way goes on to its end, so that it is charged by the upstream's own usage. */
  dismiss(error: GatewayError, code: number): void {
    if (this.#isDismissed) return;
    this.#isDismissed = true;
    this.#error = error;
    void this.report(error);
    closeWith(this.#client, code, error.code);
    this.#closing = { code, reason: error.code };
    this.#closeIfIdle();
  }

  /** Closes both sides when no response is under way any more. */
  closeWhenIdle(code: number, reason: Buffer | string): void {
    this.#closing ??= { code, reason };
    this.#closeIfIdle();
  }

  /** Cuts both connections, whatever has not been sent. */
  terminate(): void {
    this.#client.terminate();
    this.#upstream.terminate();
  }

  #watch(socket: CountedSocket): void {
    this.#memory.add(socket);
    this.#answering.add(socket);
    socket.on('pong', () => this.#answering.add(socket));
    socket.on('ping', (data) => {
      // whoever asks without reading the answers gets no more of them
      if (socket.bufferedAmount <= highWater) socket.pong(data);
    });
    // what has gone wrong, `close` tells too; but for messages that are too long
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (socket === this.#upstream && error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') {
        this.fail(failure('upstream_invalid_response'), closeCode.internal);
      }
    });
  }

  /** There is no room for what comes on this side. */
  #endForMemory(socket: CountedSocket, error: GatewayError): void {
    if (socket === this.#client) this.dismiss(error, closeCode.tryAgainLater);
    else this.fail(error, closeCode.tryAgainLater);
    closeWith(socket, closeCode.tryAgainLater, error.code);
    socket.drop();
  }

  #listenToUpstream(upstream: CountedSocket): MessageFlow {
    this.#watch(upstream);
    const handle = async (message: Message): Promise<void> => {
      if (upstream === this.#upstream) await this.#takeFromUpstream(message);
    };
    const flow = new MessageFlow(upstream, handle, this.#memory);
    upstream.on('close', (code, reason) => {
      void flow.handled().then(() => this.#upstreamClosed(upstream, code, reason));
    });
    // it may have been lost before anybody listened
    if (upstream.readyState === WebSocket.CLOSED) setImmediate(() => this.#upstreamClosed(upstream, 1006, ''));
    return flow;
  }

  async #takeFromClient(message: Message): Promise<void> {
    if (this.#isDismissed) return;
    this.#lastMessageAt = performance.now();
    await this.#guarded(() => this.#session.fromClient(message, this));
  }

  async #takeFromUpstream(message: Message): Promise<void> {
    this.#lastMessageAt = performance.now();
    await this.#guarded(() => this.#session.fromUpstream(message, this));
    this.#closeIfIdle();
  }

  #closeIfIdle(): void {
    if (!this.#closing || this.#session.isBusy) return;
    const { code, reason } = this.#closing;
    if (this.#client.readyState === WebSocket.CLOSED) closeWith(this.#upstream, code, reason);
    else this.#end(code, reason);
  }

  /** Runs a part of the session; what it throws, the client is told. Never rejects. */
  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      await this.#tell(error);
    }
  }

  async #tell(thrown: unknown): Promise<void> {
    if (thrown instanceof SocketEnd) this.#endWith(thrown.error);
    else if (isGatewayError(thrown)) await this.report(thrown);
    else {
      this.#options.logger.error('a WebSocket failed', { error: describeThrown(thrown) });
      this.#endWith(new GatewayError('internal_error', 'The gateway failed'));
    }
  }

  #endWith(error: GatewayError): void {
    const code = error.status < 500 ? closeCode.policy : closeCode.internal;
    // nothing good comes of an upstream that sends what cannot be passed on, nor of what fails again
    if (this.#isDismissed || error.code === 'upstream_invalid_response') this.fail(error, code);
    else this.dismiss(error, code);
  }

  #clientClosed(code: number, reason: Buffer): void {
    this.#hasLeft = !this.#isDismissed;
    if (this.#upstream.readyState === WebSocket.CLOSED) {
      this.#finish();
      return;
    }
    // what is under way is charged by the upstream's own usage: its end is awaited
    const close = (): void => this.closeWhenIdle(isSendable(code) ? code : closeCode.goingAway, reason);
    if (code === 1006) close();
    // what it has sent before its close frame is passed on, and begins what it asks for
    else void this.#fromClient.handled().then(close);
  }

  #upstreamClosed(upstream: CountedSocket, code: number, reason: Buffer | string): void {
    if (upstream !== this.#upstream) return;
    if (this.#client.readyState === WebSocket.CLOSED) this.#finish();
    else if (code === 1006) this.fail(failure('upstream_disconnected'), closeCode.internal);
    else if (this.#session.upstream.maskErrors && code !== closeCode.normal) {
      const { logger } = this.#options;
      logger.warn('an upstream closed a WebSocket', { code, reason: loggableError(reason.toString(), true, {}) });
      this.#end(code, '');
    } else this.#end(code, reason);
  }

  #end(code: number, reason: Buffer | string): void {
    this.#isDismissed = true;
    this.#isEnding = true;
    closeWith(this.#client, code, reason);
    closeWith(this.#upstream, isSendable(code) ? code : closeCode.normal);
    const { CLOSED } = WebSocket;
    if (this.#client.readyState === CLOSED && this.#upstream.readyState === CLOSED) this.#finish();
  }

  #finish(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    clearInterval(this.#pings);
    clearTimeout(this.#idleTimer);
    this.#memory.release();
    // what is still being checked may open something that has to be closed
    void Promise.all([this.#fromClient.handled(), this.#fromUpstream.handled()])
      .then(() => this.#session.ended(this.#hasLeft))
      .catch((error) => this.#tell(error))
      .finally(() => this.#options.onEnded(this.#error));
  }

  /** How long the upstream may be silent while a response is under way. Milliseconds. */
  get #maxSilence(): number {
    return this.#session.upstream.timeouts.firstByte;
  }

  /** Looks again in so many milliseconds, and sooner if a response that begins meanwhile must not take as long. */
  #awaitIdle(rest: number): NodeJS.Timeout {
    return setTimeout(() => this.#checkIdle(), Math.max(1, Math.min(rest, this.#maxSilence)));
  }

  #checkIdle(): void {
    const { isBusy } = this.#session;
    const limit = isBusy ? this.#maxSilence : this.#options.idleTimeout;
    const rest = this.#lastMessageAt + limit - performance.now();
    if (rest > 0) this.#idleTimer = this.#awaitIdle(rest);
    else if (isBusy) this.fail(failure('upstream_timeout'), closeCode.internal);
    else this.#end(closeCode.normal, 'idle');
  }

  #ping(): void {
    for (const socket of [this.#client, this.#upstream]) {
      // of a side that is not read, no answer is seen either
      if (socket.readyState !== WebSocket.OPEN || socket.isPaused) continue;
      if (!this.#answering.delete(socket)) socket.terminate();
      else socket.ping();
    }
    if (this.#client.readyState === WebSocket.OPEN) void this.#guarded(() => this.#session.check());
  }
}
