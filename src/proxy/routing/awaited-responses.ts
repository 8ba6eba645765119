import { OutboundError } from '../../outbound/outbound-error.ts';

/** From so many calls without a response on, an upstream may count as hanging. */
const manyCalls = 5;
/** How long none may be answered; less where a call is given up sooner. Milliseconds. */
const longestSilence = 300_000;
/** How long calls that were given up count while none waits. Milliseconds. */
const remembered = 900_000;

/** The model calls that wait for a response of one upstream, and whether it gives any. */
export class AwaitedResponses {
  readonly #maxSilence: number;
  readonly #now: () => number;
  #waiting = 0;
  /** Calls that were given up since the last response. */
  #givenUp = 0;
  #lastGivenUp = 0;
  /** When the last response began, or, without any since, the first call that waits or was given up. */
  #silentSince = 0;

  /** @param firstByte after how many milliseconds a call is given up. @param now milliseconds. @default performance.now */
  constructor(firstByte: number, now = () => performance.now()) {
    this.#maxSilence = Math.min(longestSilence, firstByte);
    this.#now = now;
  }

  /** Requests whose response has not begun. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Whether five calls or more wait or were given up, and none has been answered for five minutes, or for the time after which a call is
   * given up if that is shorter. The next response ends it, or a quarter of an hour without calls.
   */
  get isHanging(): boolean {
    if (this.#waiting === 0 && this.#now() - this.#lastGivenUp >= remembered) return false;
    return this.#waiting + this.#givenUp >= manyCalls && this.#now() - this.#silentSince >= this.#maxSilence;
  }

  /** Sends a request; resolves when the head of its response is there. */
  async during<T>(send: () => Promise<T>): Promise<T> {
    if (this.#waiting + this.#givenUp === 0) this.#silentSince = this.#now();
    this.#waiting += 1;
    try {
      const response = await send();
      this.#givenUp = 0;
      this.#silentSince = this.#now();
      return response;
    } catch (error) {
      if (error instanceof OutboundError && error.code === 'timeout') {
        this.#givenUp += 1;
        this.#lastGivenUp = this.#now();
      }
      throw error;
    } finally {
      this.#waiting -= 1;
    }
  }
}
