import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import { persist } from '../mongo/writes/persist.ts';
import type { Logger } from '../options/options.ts';

/** How often the first attempts that take long are looked for. Milliseconds. */
const lookInterval = 50;
/** After this time, a first attempt that has not ended is stored as claimed. Milliseconds. */
const usualStoreAfter = 250;

export interface FirstWritesOptions {
  /** After this time, a first attempt that has not ended is stored as claimed. Milliseconds. @default 250 */
  readonly storeAfter?: number;
  readonly logger: Logger;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
}

interface Entry {
  readonly since: number;
  /** Whether the outcome of its attempt is being stored. */
  hasOutcome: boolean;
  /** Set while it is being stored as claimed; resolves with whether it was. Never rejects. */
  storing: Promise<boolean> | undefined;
  readonly settle: (failure?: Error) => void;
}

/**
 * The deliveries that are not stored yet, by the claims of their first attempts. Makes sure that one write of each is the first:
 * its outcome, or, if the attempt takes long, the delivery as claimed.
 * @typeParam Claim the claim of a first attempt
 */
export class FirstWrites<Claim> {
  readonly #storeClaimed: (claim: Claim) => Promise<boolean>;
  readonly #options: FirstWritesOptions;
  /** The oldest first. */
  readonly #entries = new Map<Claim, Entry>();
  readonly #looking: Periodic;

  /** @param storeClaimed stores a delivery as claimed; resolves with whether it is new. May be called again. */
  constructor(storeClaimed: (claim: Claim) => Promise<boolean>, options: FirstWritesOptions) {
    this.#storeClaimed = storeClaimed;
    this.#options = options;
    this.#looking = createPeriodic({
      name: 'storing attempts that take long',
      task: () => this.#storeSlow(),
      interval: lookInterval,
      initialDelay: lookInterval,
      logger: options.logger,
    });
  }

  /** Resolves when the delivery is stored; rejects if this process will not store it. */
  add(claim: Claim): Promise<void> {
    const whenStored = new Promise<void>((resolve, reject) => {
      const settle = (failure?: Error) => (failure ? reject(failure) : resolve());
      this.#entries.set(claim, { since: performance.now(), hasOutcome: false, storing: undefined, settle });
    });
    this.#looking.start();
    return whenStored;
  }

  /** Resolves with whether this was the delivery's first write. If not, the claim's token decides. */
  async write(claim: Claim, write: () => Promise<boolean>): Promise<boolean> {
    const entry = this.#entries.get(claim);
    if (!entry) return false;
    entry.hasOutcome = true;
    const isNew = !(await entry.storing) && (await write());
    this.#settle(claim, entry);
    return isNew;
  }

  /** The delivery is not stored here, if it is not stored by now. */
  drop(claim: Claim): void {
    const entry = this.#entries.get(claim);
    if (entry) this.#settle(claim, entry, new Error('the delivery was not stored'));
  }

  #settle(claim: Claim, entry: Entry, failure?: Error): void {
    entry.settle(failure);
    this.#entries.delete(claim);
    if (this.#entries.size === 0) void this.#looking.stop();
  }

  #storeSlow(): void {
    const before = performance.now() - (this.#options.storeAfter ?? usualStoreAfter);
    for (const [claim, entry] of this.#entries) {
      if (entry.since > before) return;
      entry.storing ??= this.#store(claim, entry);
    }
  }

  /** If this fails, the delivery is stored with its outcome. */
  async #store(claim: Claim, entry: Entry): Promise<boolean> {
    try {
      const isNew = await persist(async () => !entry.hasOutcome && (await this.#storeClaimed(claim)), this.#options);
      if (!entry.hasOutcome) this.#settle(claim, entry);
      return isNew;
    } catch {
      return false;
    }
  }
}
