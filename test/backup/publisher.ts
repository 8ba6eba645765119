import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelGateway } from '../../src/index.ts';

/** What is published. */
export const type = 'payment.completed';

/** Publishes one event after the other for `usr_1`, each with a key of its own. */
export class Publisher {
  /** The keys of publications that were answered, with their event, in the order of the answers. */
  readonly answered = new Map<string, string>();
  /** Of those that were not, because the database was locked or gone. */
  readonly refused: string[] = [];
  /** The longest time between two answers. Milliseconds. */
  longestPause = 0;
  #answeredAt = 0;
  #next = 0;
  #stopped = false;
  #running: Promise<unknown> = Promise.resolve();

  /** @param atOnce publications under way at the same time */
  start(gateway: ModelGateway, atOnce = 8): void {
    this.#stopped = false;
    this.#answeredAt = performance.now();
    this.#running = Promise.all(Array.from({ length: atOnce }, () => this.#publishOn(gateway)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** Publishes it once more, as a caller does who does not know whether it was kept. */
  async publish(gateway: ModelGateway, key: string): Promise<string> {
    const data = { payment_id: key, amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };
    const { id } = await gateway.publish({ type, userId: 'usr_1', data }, { idempotencyKey: key });
    return id;
  }

  async #publishOn(gateway: ModelGateway): Promise<void> {
    while (!this.#stopped) {
      this.#next += 1;
      const key = `pay_${this.#next}`;
      try {
        this.answered.set(key, await this.publish(gateway, key));
        this.longestPause = Math.max(this.longestPause, performance.now() - this.#answeredAt);
        this.#answeredAt = performance.now();
      } catch {
        this.refused.push(key);
        // a caller pauses before it publishes again
        await sleep(20);
      }
    }
  }
}
