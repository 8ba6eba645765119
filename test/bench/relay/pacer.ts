/** Who is to act again and again. */
interface Beat {
  /** The next time, by `performance.now()`. */
  at: number;
  /** Milliseconds. */
  readonly gap: number;
  /** @returns whether to be called again */
  readonly act: () => boolean;
}

/**
 * Lets many act at even distances in time, those who are due within a millisecond together and nobody else. Timers of their
 * own would come to act in one go, fifty at once, and the last of them would be measured by how long it stood in line.
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
    setTimeout(this.#run, next.at - performance.now());
  }

  #run = (): void => {
    for (let [next] = this.#beats; next && next.at <= performance.now(); [next] = this.#beats) {
      this.#beats.shift();
      if (next.act()) this.#add({ ...next, at: next.at + next.gap });
    }
    this.#wait();
  };
}
