import type { ReadyAttempt } from '../attempt/ready-attempt.ts';
import type { WebhookEntry } from './held-counts.ts';
import type { AccountQueues, WaitingAttempt, WebhookQueue } from './webhook-queue.ts';

export interface WaitingAttemptsOptions {
  /** Whether one more request may be made now, of any account. */
  readonly hasPlace: () => boolean;
  /** Sends an attempt that had to wait. */
  readonly send: (entry: WebhookEntry, attempt: WaitingAttempt) => void;
  /** Takes an attempt that found no place in time, or that still waits at the close. */
  readonly giveBack: (entry: WebhookEntry, attempt: WaitingAttempt) => void;
  /** How long an attempt waits for a place. Milliseconds. */
  readonly maxWait: number;
}

/** Claimed attempts that wait for a place. Accounts take turns, and so do the webhooks of each account. */
export class WaitingAttempts {
  readonly #options: WaitingAttemptsOptions;
  /** Accounts with waiting attempts, the one served longest ago first. */
  readonly #turns = new Set<AccountQueues>();

  constructor(options: WaitingAttemptsOptions) {
    this.#options = options;
  }

  /** @param done called when the attempt has ended */
  add(entry: WebhookEntry, ready: ReadyAttempt, done: () => void): void {
    const { ref, account, queue } = entry;
    const timer = setTimeout(() => {
      queue.window.stuck();
      account.share.window.stuck();
      this.#leave(entry, attempt);
    }, this.#options.maxWait);
    const attempt = { ref, ready, done, timer };
    queue.waiting.add(attempt);
    account.turns.add(queue);
    this.#turns.add(account);
  }

  /** Sends what there are places for. */
  sendNext(): void {
    const turns = this.#turns;
    // a served account goes to the end, so the loop comes to it again
    for (const account of turns) {
      if (!this.#options.hasPlace()) return;
      const queue = nextQueue(account);
      if (!queue) continue;
      const [attempt] = queue.waiting;
      if (!attempt) continue;
      const entry = { ref: attempt.ref, account, queue };
      this.#remove(entry, attempt);
      if (turns.delete(account)) turns.add(account);
      this.#options.send(entry, attempt);
    }
  }

  /** Gives back everything that waits. */
  clear(): void {
    for (const account of [...this.#turns]) {
      for (const queue of [...account.turns]) {
        for (const attempt of queue.waiting) this.#leave({ ref: attempt.ref, account, queue }, attempt);
      }
    }
  }

  #leave(entry: WebhookEntry, attempt: WaitingAttempt): void {
    this.#remove(entry, attempt);
    this.#options.giveBack(entry, attempt);
  }

  #remove({ account, queue }: WebhookEntry, attempt: WaitingAttempt): void {
    clearTimeout(attempt.timer);
    queue.waiting.delete(attempt);
    if (queue.waiting.size === 0) account.turns.delete(queue);
    if (account.turns.size === 0) this.#turns.delete(account);
  }
}

/** The account's next queue that may send. It goes to the end of the line. */
function nextQueue({ share, turns }: AccountQueues): WebhookQueue | undefined {
  if (!share.hasPlace()) return undefined;
  for (const queue of turns) {
    if (!queue.window.hasPlace()) continue;
    turns.delete(queue);
    turns.add(queue);
    return queue;
  }
  return undefined;
}
