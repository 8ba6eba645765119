/** How long an upstream's refusal is remembered. Milliseconds. */
const remembered = 3_600_000;
/** Of how many models it is known what an upstream has answered: callers choose their names where a pattern serves them. */
const mostModels = 1_000;

/** What an upstream has answered to calls of one model that asked for usage. */
interface Answers {
  readonly isAccepted: boolean;
  /** Milliseconds. */
  readonly refusedUntil: number;
}

const none: Answers = { isAccepted: false, refusedUntil: Number.NEGATIVE_INFINITY };

/**
 * Whether an upstream's streams are asked for their usage: by its options, and by what it has answered to that. One model that refuses says
 * nothing of the others, whose usage would then be estimated for every account.
 */
export class StreamUsage {
  readonly #isWanted: boolean;
  readonly #now: () => number;
  readonly #answers = new Map<string | undefined, Answers>();
  #wasRefused = false;

  /** @param now milliseconds. @default performance.now */
  constructor(isWanted: boolean, now = () => performance.now()) {
    this.#isWanted = isWanted;
    this.#now = now;
  }

  /** @param model the upstream's name for it; `undefined` where a call names none */
  isAskedFor(model: string | undefined): boolean {
    return this.#isWanted && this.#now() >= this.#of(model).refusedUntil;
  }

  /** Whether it has answered a call of this model that asked for usage. */
  hasAccepted(model: string | undefined): boolean {
    return this.#of(model).isAccepted;
  }

  accepted(model: string | undefined): void {
    if (!this.hasAccepted(model)) this.#remember(model, { ...none, isAccepted: true });
  }

  /** It refuses to be asked: for an hour it is not. @returns whether that is the first time */
  refused(model: string | undefined): boolean {
    const isNew = !this.#wasRefused;
    this.#wasRefused = true;
    this.#remember(model, { isAccepted: false, refusedUntil: this.#now() + remembered });
    return isNew;
  }

  #of(model: string | undefined): Answers {
    return this.#answers.get(model) ?? none;
  }

  #remember(model: string | undefined, answers: Answers): void {
    this.#answers.delete(model);
    this.#answers.set(model, answers);
    if (this.#answers.size <= mostModels) return;
    const [oldest] = this.#answers.keys();
    this.#answers.delete(oldest);
  }
}
