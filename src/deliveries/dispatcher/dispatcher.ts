import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import type { Prepare, ReadyAttempt } from '../attempt/ready-attempt.ts';
import { type AccountShares, createAccountShares } from './account-shares.ts';
import { HeldCounts, type WebhookEntry } from './held-counts.ts';
import { RateLimitedWebhooks } from './rate-limited-webhooks.ts';
import { WaitingAttempts } from './waiting-attempts.ts';
import type { WaitingAttempt } from './webhook-queue.ts';

export interface DispatcherDeps {
  /** Requests under way at once. */
  readonly concurrency: number;
  /** Of those, requests of one account until its receivers have shown that they answer quickly. */
  readonly perAccount: number;
  /** Requests under way at once to one webhook, so that a webhook that hangs cannot take all places. */
  readonly perWebhook: number;
  /** How long a claimed attempt waits for a place before it is given back. Milliseconds. */
  readonly maxWait: number;
  /** Called when this account may have room for another attempt. */
  readonly onRoom: (webhook: WebhookRef) => void;
  /** Called when the attempts of a webhook that its rate limit has held back may be claimed again. */
  readonly onResume: (webhook: WebhookRef) => void;
  /** Called when there may be room for another attempt of any account. */
  readonly onRoomInAll: () => void;
}

/** Attempts held in all, in multiples of those under way: claimed ahead, or waiting to be recorded. */
const heldLimit = 5;

/**
 * Holds this process's attempts, and decides which of them are sent. Shares the places among accounts, and each account's places
 * among its webhooks.
 */
export class Dispatcher {
  readonly #deps: DispatcherDeps;
  readonly #maxHeld: number;
  readonly #shares: AccountShares;
  readonly #counts: HeldCounts;
  readonly #waiting: WaitingAttempts;
  readonly #limited: RateLimitedWebhooks;
  /** By delivery; each resolves when its attempt has been recorded or given back. */
  readonly #held = new Map<string, Promise<void>>();
  #closed = false;

  constructor(deps: DispatcherDeps) {
    const { concurrency, perAccount, perWebhook, maxWait } = deps;
    this.#deps = deps;
    this.#maxHeld = concurrency * heldLimit;
    this.#shares = createAccountShares({ concurrency, perAccount, maxHeld: this.#maxHeld });
    this.#limited = new RateLimitedWebhooks(deps.onResume);
    const limited = this.#limited;
    this.#counts = new HeldCounts({ shares: this.#shares, perWebhook, limited, roomInAll: () => this.#roomInAll() });
    this.#waiting = new WaitingAttempts({
      hasPlace: () => this.#shares.sending < concurrency,
      send: (entry, { ready, done }) => void this.#send(entry, ready, done),
      giveBack: (entry, attempt) => this.#giveBack(entry, attempt),
      maxWait,
    });
  }

  /** Attempts that are being sent, how many may be at once, and those that are held: sent, claimed ahead, or being recorded. */
  get attempts(): { readonly sending: number; readonly limit: number; readonly held: number } {
    return { sending: this.#shares.sending, limit: this.#deps.concurrency, held: this.#held.size };
  }

  /** Whether attempts of this webhook are held. */
  holds(webhook: WebhookRef): boolean {
    return this.#counts.has(webhook);
  }

  /** Whether a rate limit of this webhook was met lately. */
  isLimited({ webhookId }: WebhookRef): boolean {
    return this.#limited.has(webhookId);
  }

  /**
   * A rate limit of this webhook was met.
   * @param ahead attempts that may wait for their permit at once
   * @param pause milliseconds before more of them are worth a claim
   */
  limit(webhook: WebhookRef, ahead: number, pause: number): void {
    if (!this.#closed) this.#limited.note(webhook, ahead, pause);
  }

  /** How many more attempts of this webhook it would take. */
  room(webhook: WebhookRef): number {
    return this.#counts.ask(webhook);
  }

  /** How many more of them are worth a query: none while half of the attempts claimed ahead are left. */
  wanted(webhook: WebhookRef): number {
    return this.#counts.wanted(webhook);
  }

  /** The same for all webhooks of an account. */
  wantedOf(userId: string): number {
    return this.#counts.wantedOf(userId);
  }

  /** The same for all accounts. */
  wantedInAll(): number {
    const isLow = this.#held.size < (this.#deps.concurrency + this.#maxHeld) / 2;
    return isLow ? this.#roomInAll() : 0;
  }

  /**
   * Prepares the attempt at once and sends it as soon as there is a place; `null` if there is no room for it. Resolves with
   * whether there is something to send; `false` also for an attempt that is held already.
   */
  offer(ref: AttemptRef, prepare: Prepare): Promise<boolean> | null {
    const { deliveryId } = ref;
    if (this.#closed || this.#held.has(deliveryId)) return Promise.resolve(false);
    const entry = this.#counts.of(ref);
    if (this.#counts.room(entry) === 0) return null;
    this.#counts.hold(entry);
    const preparing = prepare(ref);
    const ended = this.#dispatch(entry, preparing).finally(() => {
      this.#held.delete(deliveryId);
      this.#deps.onRoomInAll();
    });
    this.#held.set(deliveryId, ended);
    return preparing.then((ready) => ready !== null);
  }

  /** Starts nothing more; resolves when every held attempt has been recorded or given back. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    this.#limited.close();
    await Promise.all(this.#held.values());
  }

  #roomInAll(): number {
    return this.#closed ? 0 : Math.max(0, this.#maxHeld - this.#held.size);
  }

  async #dispatch(entry: WebhookEntry, preparing: Promise<ReadyAttempt | null>): Promise<void> {
    const ready = await preparing;
    if (ready === null || this.#closed) {
      await ready?.giveBack();
      this.#vacate(entry);
      return;
    }
    const hasPlace = entry.account.share.hasPlace() && entry.queue.window.hasPlace();
    if (hasPlace) await new Promise<void>((done) => void this.#send(entry, ready, done));
    else await new Promise<void>((done) => this.#waiting.add(entry, ready, done));
  }

  async #send(entry: WebhookEntry, ready: ReadyAttempt, done: () => void): Promise<void> {
    const { account, queue } = entry;
    const started = performance.now();
    queue.window.sending += 1;
    account.share.begin();
    const finish = await ready.send();
    const duration = performance.now() - started;
    queue.window.sending -= 1;
    queue.window.ended(duration);
    account.share.end(duration);
    this.#waiting.sendNext();
    this.#vacate(entry);
    await finish();
    done();
  }

  #giveBack(entry: WebhookEntry, { ready, done }: WaitingAttempt): void {
    void ready.giveBack().then(() => {
      this.#vacate(entry);
      done();
    });
  }

  /** The attempt needs no place any more. */
  #vacate(entry: WebhookEntry): void {
    this.#counts.release(entry);
    this.#deps.onRoom(entry.ref);
  }
}
