import { type ErrorCode, isGatewayError } from '../errors.ts';
import type { Admission } from '../proxy/admission.ts';

/** Refusals of what is more than there is left. */
const isAboutAmount: ReadonlySet<ErrorCode> = new Set(['insufficient_credits', 'insufficient_quota']);

/** Sound of so many seconds that may go up. */
interface Step {
  readonly seconds: number;
  readonly admissions: readonly Admission[];
}

/** How much sound is admitted at once: sound comes many times in a second. Seconds. */
const longStep = 60;
/** The same where credits or a budget are short: what is left may be enough for less. Seconds. */
const shortStep = 1;

/**
 * Has sound admitted before it goes up that a model may transcribe.
 * @param isFirst whether none is admitted for this model
 * @throws GatewayError where it is refused
 */
type AdmitSound = (model: string, seconds: number, isFirst: boolean) => Promise<readonly Admission[]>;

/** How long sound is refused before its admission is asked for again, where the refusal does not say. Milliseconds. */
const defaultPause = 5_000;

/** The time in which sound is refused without asking: it comes many times in a second. */
export class SoundPause {
  /** By `performance.now()`. */
  #until = 0;

  /**
   * Has some sound admitted.
   * @returns whether it may go up
   * @throws GatewayError where it is refused, once until it may be asked for again
   */
  async admit(ask: () => Promise<void>): Promise<boolean> {
    if (performance.now() < this.#until) return false;
    try {
      await ask();
      return true;
    } catch (error) {
      if (!isGatewayError(error)) throw error;
      const { 'retry-after-ms': exact, 'retry-after': seconds } = error.headers;
      const wait = Number(exact ?? Number(seconds) * 1_000) || defaultPause;
      this.#until = performance.now() + wait;
      throw error;
    }
  }

  /** It may be asked for again. */
  end(): void {
    this.#until = 0;
  }
}

/** What is admitted of the sound of one session, by the model that may transcribe it, and is not transcribed yet. */
export class SoundAdmission {
  readonly #admit: AdmitSound;
  readonly #steps = new Map<string, Step[]>();
  /** Whether the last long step was more than the account can pay. */
  #isShort = false;

  constructor(admit: AdmitSound) {
    this.#admit = admit;
  }

  /** Whether so much is admitted. */
  covers(model: string, seconds: number): boolean {
    return seconds <= this.#admitted(model);
  }

  /** Has admitted what is missing to so many seconds. @throws GatewayError where that is refused */
  async cover(model: string, seconds: number): Promise<void> {
    const missing = seconds - this.#admitted(model);
    if (missing <= 0) return;
    try {
      await this.#add(model, Math.max(missing, this.#isShort ? shortStep : longStep));
    } catch (error) {
      const mayFit = !this.#isShort && missing < longStep;
      if (!mayFit || !isGatewayError(error) || !isAboutAmount.has(error.code)) throw error;
      this.#isShort = true;
      await this.#add(model, Math.max(missing, shortStep));
    }
  }

  /** Gives back what is not needed any more. @param neededOf how much sound the model may still transcribe. Seconds */
  trim(neededOf: (model: string) => number): void {
    for (const [model, steps] of this.#steps) {
      const needed = neededOf(model);
      for (let last = steps.at(-1); last && this.#admitted(model) - last.seconds >= needed; last = steps.at(-1)) {
        steps.pop();
        for (const admission of last.admissions) admission.dropped();
        this.#isShort = false;
      }
      if (steps.length === 0) this.#steps.delete(model);
    }
  }

  #admitted(model: string): number {
    return (this.#steps.get(model) ?? []).reduce((total, { seconds }) => total + seconds, 0);
  }

  async #add(model: string, seconds: number): Promise<void> {
    const steps = this.#steps.get(model) ?? [];
    const admissions = await this.#admit(model, seconds, steps.length === 0);
    steps.push({ seconds, admissions });
    this.#steps.set(model, steps);
  }
}
