/** How long an upstream's refusal is remembered. Milliseconds. */
const remembered = 3_600_000;

/** Whether an upstream's streams are asked for their usage: by its options, and by what it has answered to that. */
export class StreamUsage {
  readonly #isWanted: boolean;
  readonly #now: () => number;
  #refusedUntil = Number.NEGATIVE_INFINITY;
  #wasRefused = false;
  /** Whether it has answered a call that asked for usage. */
  isAccepted = false;

  /** @param now milliseconds. @default performance.now */
  constructor(isWanted: boolean, now = () => performance.now()) {
    this.#isWanted = isWanted;
    this.#now = now;
  }

  get isAskedFor(): boolean {
    return this.#isWanted && this.#now() >= this.#refusedUntil;
  }

  accepted(): void {
    this.isAccepted = true;
  }

  /** It refuses to be asked: for an hour it is not. @returns whether that is new */
  refused(): boolean {
    const isNew = !this.#wasRefused;
    this.#wasRefused = true;
    this.#refusedUntil = this.#now() + remembered;
    return isNew;
  }
}
