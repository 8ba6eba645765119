/** How long an upstream's refusal is remembered. Milliseconds. */
const remembered = 3_600_000;

/** The most models whose acceptance is remembered, for each upstream. */
const modelsKept = 1_000;

/** Whether an upstream's streams are asked for their usage: by its options, and by what it has answered to that. */
export class StreamUsage {
  readonly #isWanted: boolean;
  readonly #now: () => number;
  #refusedUntil = Number.NEGATIVE_INFINITY;
  #wasRefused = false;
  /** The models that have answered a call that asked for usage: behind one upstream there may be many providers. */
  readonly #accepting = new Set<string | undefined>();

  /** @param now milliseconds. @default performance.now */
  constructor(isWanted: boolean, now = () => performance.now()) {
    this.#isWanted = isWanted;
    this.#now = now;
  }

  get isAskedFor(): boolean {
    return this.#isWanted && this.#now() >= this.#refusedUntil;
  }

  /** @param model the upstream's name for it; `undefined` where a call names none */
  accepted(model: string | undefined): void {
    if (this.#accepting.has(model)) return;
    if (this.#accepting.size >= modelsKept) {
      const [oldest] = this.#accepting;
      this.#accepting.delete(oldest);
    }
    this.#accepting.add(model);
  }

  /** Whether this model has answered a call that asked for usage. */
  hasAccepted(model: string | undefined): boolean {
    return this.#accepting.has(model);
  }

  /** The upstream refuses to be asked: for an hour it is not. @returns whether that is new */
  refused(): boolean {
    const isNew = !this.#wasRefused;
    this.#wasRefused = true;
    this.#refusedUntil = this.#now() + remembered;
    this.#accepting.clear();
    return isNew;
  }
}
