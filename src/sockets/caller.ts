import { setTimeout as sleep } from 'node:timers/promises';
import { type GatewayError, isGatewayError } from '../errors.ts';
import type { ModelCall } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import {
  type Admission,
  type AdmissionCheck,
  type RequestedCall,
  requestAdmission,
  requireAllowedModel,
} from '../proxy/admission.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import { SocketEnd } from './bridge.ts';

/** How often an admission is asked for again that is refused for the moment alone. */
const mostTries = 10;

/** The client of one socket: who it is, and whether it may go on. */
export class SocketCaller {
  readonly #opened: Omit<ModelCall, 'stream'>;
  readonly #authenticate: () => Promise<Principal>;
  readonly #checks: readonly AdmissionCheck[];
  #principal: Principal;

  /**
   * @param opened who has opened the socket, and with what: its model is that of every response, and `undefined` where each names its own
   * @param authenticate says again whose the key is. @throws GatewayError as for any call
   * @param checks what a response has to pass
   */
  constructor(
    opened: Omit<ModelCall, 'stream'>,
    authenticate: () => Promise<Principal>,
    checks: Pick<RelayDependencies, 'admissionChecks'>,
  ) {
    this.#opened = opened;
    this.#principal = opened.principal;
    this.#authenticate = authenticate;
    this.#checks = checks.admissionChecks;
  }

  /** As its key was when it was last checked. */
  get principal(): Principal {
    return this.#principal;
  }

  /** Of the handshake, and of every response. */
  get requestId(): string {
    return this.#opened.requestId;
  }

  /** A response on this socket, as checks and hooks see it. */
  call(model: string | undefined): ModelCall {
    const { requestId, endpoint } = this.#opened;
    return { requestId, principal: this.#principal, endpoint, model, stream: true };
  }

  /** Requires that the key is still good for what the socket is for. @throws SocketEnd when it is not */
  async requireKey(): Promise<void> {
    const { model } = this.#opened;
    try {
      this.#principal = await this.#authenticate();
      if (model !== undefined) requireAllowedModel(this.#principal, model);
    } catch (error) {
      // while the database is unavailable, the socket goes on
      if (isGatewayError(error) && error.status < 500) throw new SocketEnd(error);
    }
  }

  /** Has a response admitted, as a call of its own, or sound, as a part of one. @throws GatewayError when it is refused */
  async admit(call: RequestedCall): Promise<readonly Admission[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await requestAdmission(this.#checks, call, unheard);
      } catch (error) {
        if (!isGatewayError(error) || !isMomentary(error) || tries === mostTries) throw error;
        await sleep(Number(error.headers['retry-after-ms'] ?? 100));
      }
    }
  }
}

/** A message has no headers. */
const unheard = { setHeader() {} };

/** Whether a client would be told to try again in a moment, which it cannot on a socket. */
const isMomentary = ({ headers }: GatewayError): boolean => headers['x-should-retry'] === 'true';
