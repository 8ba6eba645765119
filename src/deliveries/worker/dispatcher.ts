import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import type { Prepare, ReadyAttempt } from '../attempt/ready-attempt.ts';
import { createAccountShares } from './account-shares.ts';
import {
  type AccountQueues,
  createWebhookQueue,
  nextQueue,
  type WaitingAttempt,
  type WebhookQueue,
} from './webhook-queue.ts';

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
  /** Called when there may be room for another attempt of any account. */
  readonly onRoomInAll: () => void;
}

/** Holds this process's attempts, and decides which of them are sent. */
export interface Dispatcher {
  /**
   * Prepares the attempt at once and sends it as soon as there is a place; `null` if there is no room for it. Resolves with
   * whether there is something to send; `false` also for an attempt that is held already.
   */
  offer(ref: AttemptRef, prepare: Prepare): Promise<boolean> | null;
  /** Whether attempts of this webhook are held. */
  holds(webhook: WebhookRef): boolean;
  /** How many more attempts of this webhook it would take. */
  room(webhook: WebhookRef): number;
  /** How many more of them are worth a query: none while half of the attempts claimed ahead are left. */
  wanted(webhook: WebhookRef): number;
  /** The same for all webhooks of an account. */
  wantedOf(userId: string): number;
  /** The same for all accounts. */
  wantedInAll(): number;
  /** Starts nothing more; resolves when every held attempt has been recorded or given back. */
  close(): Promise<void>;
}

/** Attempts held in all, in multiples of those under way: claimed ahead, or waiting to be recorded. */
const heldLimit = 5;

/** The queue that an attempt belongs to. */
interface Slot {
  readonly ref: WebhookRef;
  readonly account: AccountQueues;
  readonly queue: WebhookQueue;
}

/** Shares the places among accounts, and each account's places among its webhooks. */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { concurrency, perAccount, perWebhook, maxWait, onRoom, onRoomInAll } = deps;
  const maxHeld = concurrency * heldLimit;
  const held = new Map<string, Promise<void>>();
  const shares = createAccountShares({ concurrency, perAccount, maxHeld });
  const accounts = new Map<string, AccountQueues>();
  /** Accounts with waiting attempts, the one served longest ago first. */
  const turns = new Set<AccountQueues>();
  let closed = false;
  /** The slot for which `room` was last asked: the caller offers an attempt for it next. */
  let asked: Slot | null = null;

  const accountOf = (userId: string): AccountQueues =>
    accounts.get(userId) ?? { share: shares.of(userId), queues: new Map(), turns: new Set() };
  const queueOf = ({ share, queues }: AccountQueues, webhookId: string) =>
    queues.get(webhookId) ?? createWebhookQueue(share, perWebhook);

  const roomInAll = () => (closed ? 0 : Math.max(0, maxHeld - held.size));
  const isLowInAll = () => held.size < (concurrency + maxHeld) / 2;

  function slotOf(ref: WebhookRef): Slot {
    const account = accountOf(ref.userId);
    return { ref, account, queue: queueOf(account, ref.webhookId) };
  }

  const askedFor = ({ userId, webhookId }: WebhookRef) =>
    asked?.ref.webhookId === webhookId && asked.ref.userId === userId ? asked : null;

  function roomOf({ account, queue }: Slot): number {
    const inAll = roomInAll();
    return inAll && Math.min(inAll, account.share.window.room(), queue.window.room());
  }

  function hold({ ref, account, queue }: Slot): void {
    asked = null;
    if (account.queues.size === 0) accounts.set(ref.userId, account);
    if (queue.window.held === 0) account.queues.set(ref.webhookId, queue);
    account.share.hold();
    queue.window.held += 1;
  }

  /** The attempt needs no place any more. Forgets a webhook, and an account, without attempts. */
  function vacate({ ref, account, queue }: Slot): void {
    asked = null;
    queue.window.held -= 1;
    account.share.release();
    if (queue.window.held === 0) account.queues.delete(ref.webhookId);
    if (account.queues.size === 0) accounts.delete(ref.userId);
    onRoom(ref);
  }

  async function send(slot: Slot, ready: ReadyAttempt, done: () => void): Promise<void> {
    const { account, queue } = slot;
    const started = performance.now();
    queue.window.sending += 1;
    account.share.begin();
    const finish = await ready.send();
    const duration = performance.now() - started;
    queue.window.sending -= 1;
    queue.window.ended(duration);
    account.share.end(duration);
    sendWaiting();
    vacate(slot);
    await finish();
    done();
  }

  function wait(slot: Slot, ready: ReadyAttempt, done: () => void): void {
    const { account, queue } = slot;
    const timer = setTimeout(() => {
      queue.window.stuck();
      account.share.window.stuck();
      leave(slot, entry);
    }, maxWait);
    const entry = { ref: slot.ref, ready, done, timer };
    queue.waiting.add(entry);
    account.turns.add(queue);
    turns.add(account);
  }

  function leave(slot: Slot, entry: WaitingAttempt): void {
    remove(slot, entry);
    void entry.ready.giveBack().then(() => {
      vacate(slot);
      entry.done();
    });
  }

  function remove({ account, queue }: Slot, entry: WaitingAttempt): void {
    clearTimeout(entry.timer);
    queue.waiting.delete(entry);
    if (queue.waiting.size === 0) account.turns.delete(queue);
    if (account.turns.size === 0) turns.delete(account);
  }

  function sendWaiting(): void {
    // a served account goes to the end, so the loop comes to it again
    for (const account of turns) {
      if (shares.sending >= concurrency) return;
      const queue = nextQueue(account);
      if (!queue) continue;
      const [entry] = queue.waiting;
      if (!entry) continue;
      const slot = { ref: entry.ref, account, queue };
      remove(slot, entry);
      if (turns.delete(account)) turns.add(account);
      void send(slot, entry.ready, entry.done);
    }
  }

  async function dispatch(slot: Slot, preparing: Promise<ReadyAttempt | null>): Promise<void> {
    const ready = await preparing;
    if (ready === null || closed) {
      await ready?.giveBack();
      vacate(slot);
      return;
    }
    const hasPlace = slot.account.share.hasPlace() && slot.queue.window.hasPlace();
    if (hasPlace) await new Promise<void>((done) => void send(slot, ready, done));
    else await new Promise<void>((done) => wait(slot, ready, done));
  }

  return {
    holds: ({ userId, webhookId }) => accounts.get(userId)?.queues.has(webhookId) ?? false,
    room(webhook) {
      const slot = slotOf(webhook);
      const room = roomOf(slot);
      asked = room > 0 ? slot : null;
      return room;
    },
    wanted(webhook) {
      const slot = slotOf(webhook);
      return slot.queue.window.isLow() ? roomOf(slot) : 0;
    },
    wantedOf(userId) {
      const { window } = accountOf(userId).share;
      return window.isLow() ? Math.min(roomInAll(), window.room()) : 0;
    },
    wantedInAll: () => (isLowInAll() ? roomInAll() : 0),
    offer(ref, prepare) {
      const { deliveryId } = ref;
      if (closed || held.has(deliveryId)) return Promise.resolve(false);
      const slot = askedFor(ref) ?? slotOf(ref);
      if (roomOf(slot) === 0) return null;
      hold(slot);
      const preparing = prepare(ref);
      const ended = dispatch(slot, preparing).finally(() => {
        held.delete(deliveryId);
        onRoomInAll();
      });
      held.set(deliveryId, ended);
      return preparing.then((ready) => ready !== null);
    },
    async close() {
      closed = true;
      for (const account of [...turns]) {
        for (const queue of [...account.turns]) {
          for (const entry of queue.waiting) leave({ ref: entry.ref, account, queue }, entry);
        }
      }
      await Promise.all(held.values());
    },
  };
}
