/** Who is to act again and again. */
interface Beat {
  /** The next time, by `performance.now()`. */
  at: number;
  /** Milliseconds. */
  readonly gap: number;
  /** @returns whether to be called again */
  readonly act: () => boolean;
}

/** How long before its moment a timer is set for, since timers are late. Milliseconds. */
const margin = 3;

/**
 * Lets many act at even distances in time, each at its own moment, busy as it waits. Timers would let all act in one go
 * who are due within the same millisecond, and the last of them would be measured by how long it stood in line.
 */
export class Pacer {
  /** Soonest first. */
  readonly #beats: Beat[] = [];
  #phase = 0;
  #running = false;

  /** Calls `act` every `gap` milliseconds until it returns false. Those who begin together are spread over the gap. */
  every(gap: number, act: () => boolean): void {
    // multiples of the golden ratio lie evenly, however many there are
    this.#phase = (this.#phase + 0.618_034) % 1;
    this.#add({ at: performance.now() + gap * (1 + this.#phase), gap, act });
    if (!this.#running) this.#wait();
  }

  #add(beat: Beat): void {
    let place = this.#beats.length;
    while (place > 0 && (this.#beats[place - 1] as Beat).at > beat.at) place -= 1;
    this.#beats.splice(place, 0, beat);
  }

  #wait(): void {
    const [next] = this.#beats;
    this.#running = next !== undefined;
    if (!next) return;
    const left = next.at - performance.now();
    if (left > margin) setTimeout(this.#run, left - margin);
    else setImmediate(this.#run);
  }

  #run = (): void => {
    for (let [next] = this.#beats; next && next.at <= performance.now(); [next] = this.#beats) {
      this.#beats.shift();
      if (next.act()) this.#add({ ...next, at: next.at + next.gap });
    }
    this.#wait();
  };
}
