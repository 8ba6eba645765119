import { dynamicThreshold } from '../fairness/account-shares.ts';
import { MetLimits } from '../fairness/send-rates.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { WebhookRef } from './model.ts';

/** Attempts held in all, in multiples of the requests under way: claimed ahead, or waiting to be recorded. */
const heldLimit = 5;
/** Attempts are claimed as far ahead as the places will probably use them within this time. Milliseconds. */
const prefetchHorizon = 300;
/** The most attempts claimed ahead, in multiples of the places. */
const aheadLimit = 40;
/** The weight of one request in the mean response time. */
const weight = 0.1;
/** The expected response time of an account without responses so far: a burst for many webhooks can be held at once. Milliseconds. */
const expectedOfAccount = 75;
/** The part of all places that no account gets, however quickly its receivers answer, so that a new account can start. */
const reserve = 0.1;
/** A request that takes longer counts as slow. Milliseconds. */
const slow = 2_000;
/** Webhooks in one read of what is due. */
const webhooksAtOnce = 100;
/** Attempts that are read of a webhook whose account is not known yet: enough to learn the account, and whether there is more. */
const unknownShare = 2;
/** The account of webhooks whose account is not known yet. */
const unknownAccount = '';

export type ScheduleOptions = Pick<
  ResolvedOptions['deliveries'],
  'concurrency' | 'concurrencyPerAccount' | 'concurrencyPerWebhook'
>;

/** What a webhook or an account has under way, and how quickly its receivers answer. */
interface Load {
  /** Attempts that are claimed or being claimed, until their request has ended. */
  held: number;
  /** Attempts whose request is under way. */
  sending: number;
  /** The mean response time. Milliseconds. */
  mean: number;
  /** When a request ended last. */
  lastEnd: number;
}

interface Account<Item> extends Load {
  readonly userId: string;
  /** The places that it has earned. */
  allowance: number;
  /** How many of its webhooks are in the schedule. */
  webhooks: number;
  /** Webhooks with attempts that wait for a place, the one served longest ago first. */
  readonly toSend: Set<ScheduledWebhook<Item>>;
  /** Webhooks with stored attempts that are due, the one served longest ago first. */
  readonly due: Set<ScheduledWebhook<Item>>;
}

/** A webhook with attempts in this process, or with stored ones that are due. */
export interface ScheduledWebhook<Item> extends Load {
  readonly ref: Readonly<WebhookRef>;
  account: Account<Item>;
  /** Claimed attempts that wait for a place, in the order of their claims. */
  readonly waiting: Item[];
  /** The number of the last note that something is due; 0 when all of it is claimed. */
  dueSerial: number;
  /** Whether the last read found as much as it asked for: more may have been due for longer. */
  isBehind: boolean;
}

/** What is held of a webhook, of an account or in all: `places` can be sent at once, and up to `limit` may be held. */
type Level = Readonly<Record<'held' | 'places' | 'limit', number>>;

/** How many attempts of a webhook are to be claimed; `serial` tells whether something became due meanwhile. */
export interface ClaimShare {
  readonly count: number;
  readonly serial: number;
}

/**
 * What this process holds and knows of deliveries, and what starts next. It does nothing itself and reads no clock: `now` is a
 * monotonic time in milliseconds.
 *
 * **Places.** An account's part is `concurrencyPerAccount` of `concurrency` at first. It grows by one place with each quick response,
 * up to all places except a reserve, so that a single account can use nearly everything within a few responses. Each slow response
 * takes from it the places that it has kept busy, down to the first part. Of that, a webhook may use two thirds of what the account's other webhooks leave,
 * up to its own limit. So receivers that hang leave places to others, of the same account and of all others.
 *
 * **Claims ahead.** Attempts are claimed ahead for receivers that answer quickly, so that a free place is filled without asking the
 * database first. A slow receiver gets few beyond its places, and one that hangs gets none: claimed attempts would only
 * make other workers, and the owner's changes, wait. With nothing claimed ahead, stored deliveries of ten webhooks take 1.39
 * times the CPU of worker and mongod (1.29 to 1.45 in five interleaved rounds) and go out at 0.69 times the rate. With four times the
 * places claimed ahead whatever the responses take, receivers that take a second cause 1.16 times the operations (1.11 to 1.22).
 *
 * **Turns.** Accounts take turns, and so do the webhooks of each account: for places, and for claims of what is due.
 * @typeParam Item an attempt that waits for a place
 */
export class Schedule<Item> {
  /** The rate limits that were met lately. */
  readonly limits = new MetLimits();
  readonly #concurrency: number;
  readonly #perWebhook: number;
  readonly #firstAllowance: number;
  readonly #largestAllowance: number;
  readonly #maxHeld: number;
  readonly #webhooks = new Map<string, ScheduledWebhook<Item>>();
  readonly #accounts = new Map<string, Account<Item>>();
  /** Accounts with waiting attempts, and accounts with something due; the one served longest ago first. */
  readonly #toSend = new Set<Account<Item>>();
  readonly #due = new Set<Account<Item>>();
  #sending = 0;
  #held = 0;
  /** Attempts that are held or still being recorded. */
  #open = 0;
  #serial = 0;
  #isFull = false;

  constructor({ concurrency, concurrencyPerAccount, concurrencyPerWebhook }: ScheduleOptions) {
    this.#concurrency = concurrency;
    this.#perWebhook = concurrencyPerWebhook;
    this.#firstAllowance = Math.min(concurrencyPerAccount, concurrency);
    this.#largestAllowance = Math.max(this.#firstAllowance, concurrency - Math.floor(concurrency * reserve));
    this.#maxHeld = concurrency * heldLimit;
  }

  /** Requests under way. */
  get sending(): number {
    return this.#sending;
  }

  /** Whether any webhook has something due that is not claimed. */
  get hasDue(): boolean {
    return this.#due.size > 0;
  }

  /** The webhook; a new one, which is forgotten unless something is held or due of it, if it has nothing here. */
  of({ webhookId, userId }: Readonly<WebhookRef>, now: number): ScheduledWebhook<Item> {
    const present = this.#webhooks.get(webhookId);
    if (present?.account.userId === userId) return present;
    if (present) return this.#learnAccount(present, userId, now);
    const account = this.#accounts.get(userId) ?? {
      held: 0,
      sending: 0,
      lastEnd: now,
      userId,
      mean: expectedOfAccount,
      allowance: this.#firstAllowance,
      webhooks: 0,
      toSend: new Set(),
      due: new Set(),
    };
    const ref = { webhookId, userId };
    return {
      held: 0,
      sending: 0,
      lastEnd: now,
      ref,
      account,
      mean: prefetchHorizon,
      waiting: [],
      dueSerial: 0,
      isBehind: false,
    };
  }

  // What may be held and sent.

  /** How many more attempts of the webhook may be held now. */
  room(webhook: ScheduledWebhook<Item>, now: number): number {
    return Math.min(
      roomIn(this.inAll),
      roomIn(this.#ofAccount(webhook.account, now)),
      roomIn(this.#ofWebhook(webhook, now)),
      this.limits.room(webhook.ref.webhookId, webhook.held - webhook.sending, now),
    );
  }

  /** What is held in all, until it is recorded. */
  get inAll(): Level {
    return { held: this.#open, places: this.#concurrency, limit: this.#maxHeld };
  }

  /** How many more attempts of any webhook are worth a query. */
  get wantedInAll(): number {
    return wantedIn(this.inAll);
  }

  /** Whether a request to the webhook may be made now. */
  hasPlace(webhook: ScheduledWebhook<Item>): boolean {
    const { account, sending } = webhook;
    if (this.#sending >= this.#concurrency || account.sending >= this.#places(account)) return false;
    return sending < this.#placesOf(webhook);
  }

  /**
   * Whether a new delivery may start now. One that can wait in memory starts only while its webhook holds less than its places and half
   * of what may be claimed ahead: an attempt that begins long before it gets a place is stored meanwhile (`claims.ts`), which costs a write.
   * While anything stored is due, the same goes for the webhook, its account and the process: what is due is claimed when less
   * than that is held, so otherwise new deliveries would take all room again and again, and the one that is due longest would never begin.
   */
  mayStartNew(webhook: ScheduledWebhook<Item>, now: number): boolean {
    if (!this.hasDue) {
      const isEarly = wantedIn(this.#ofWebhook(webhook, now)) === 0 && this.mayWaitNew(webhook, now);
      return !isEarly && this.room(webhook, now) > 0;
    }
    return (
      !webhook.isBehind &&
      this.wantedInAll > 0 &&
      this.#wantedOf(webhook.account, now) > 0 &&
      this.#wanted(webhook, now) > 0
    );
  }

  /** Whether a new delivery may wait in memory: another attempt of its webhook is under way, and nothing stored comes first. */
  mayWaitNew(webhook: ScheduledWebhook<Item>, now: number): boolean {
    return webhook.held > 0 && webhook.dueSerial === 0 && !this.limits.has(webhook.ref.webhookId, now);
  }

  // What is under way.

  hold(webhook: ScheduledWebhook<Item>): void {
    this.#keep(webhook);
    webhook.held += 1;
    webhook.account.held += 1;
    this.#held += 1;
    this.#open += 1;
  }

  /** The attempt needs no place any more. */
  release(webhook: ScheduledWebhook<Item>): void {
    webhook.held -= 1;
    webhook.account.held -= 1;
    this.#held -= 1;
    this.#forgetIdle(webhook);
  }

  /** The attempt is recorded, or given back. */
  recorded(): void {
    this.#open -= 1;
  }

  begin(webhook: ScheduledWebhook<Item>): void {
    webhook.sending += 1;
    webhook.account.sending += 1;
    this.#sending += 1;
  }

  /** A request has ended. @param duration milliseconds */
  end(webhook: ScheduledWebhook<Item>, duration: number, now: number): void {
    const { account } = webhook;
    this.#sending -= 1;
    for (const load of [webhook, account]) {
      load.sending -= 1;
      load.lastEnd = now;
      load.mean += (duration - load.mean) * weight;
    }
    account.allowance =
      duration < slow
        ? Math.min(this.#largestAllowance, account.allowance + 1)
        : Math.max(this.#firstAllowance, account.allowance - duration / slow);
  }

  // What waits for a place.

  wait(webhook: ScheduledWebhook<Item>, item: Item): void {
    webhook.waiting.push(item);
    webhook.account.toSend.add(webhook);
    this.#toSend.add(webhook.account);
  }

  /** It waits no more. @param isStuck whether it found no place in time: then nothing is claimed ahead until requests end */
  leave(webhook: ScheduledWebhook<Item>, item: Item, isStuck: boolean): void {
    const { account } = webhook;
    webhook.waiting.splice(webhook.waiting.indexOf(item), 1);
    if (webhook.waiting.length === 0) account.toSend.delete(webhook);
    if (account.toSend.size === 0) this.#toSend.delete(account);
    if (!isStuck) return;
    webhook.mean = Math.max(webhook.mean, 2 * this.#placesOf(webhook) * prefetchHorizon);
    account.mean = Math.max(account.mean, 2 * this.#places(account) * prefetchHorizon);
  }

  /** The attempt that is sent next, if there is a place for one. Its account and its webhook go to the end of the line. */
  next(): { readonly webhook: ScheduledWebhook<Item>; readonly item: Item } | undefined {
    if (this.#sending >= this.#concurrency) return undefined;
    for (const account of this.#toSend) {
      if (account.sending >= this.#places(account)) continue;
      for (const webhook of account.toSend) {
        const [item] = webhook.waiting;
        if (item === undefined || webhook.sending >= this.#placesOf(webhook)) continue;
        this.leave(webhook, item, false);
        if (account.toSend.delete(webhook)) account.toSend.add(webhook);
        if (this.#toSend.delete(account)) this.#toSend.add(account);
        return { webhook, item };
      }
    }
    return undefined;
  }

  /** Everything that waits. */
  allWaiting(): { readonly webhook: ScheduledWebhook<Item>; readonly item: Item }[] {
    const webhooks = [...this.#toSend].flatMap(({ toSend }) => [...toSend]);
    return webhooks.flatMap((webhook) => webhook.waiting.map((item) => ({ webhook, item })));
  }

  // What is due.

  /** Something stored of this webhook is due. Without `userId`, a read of it tells the account. */
  noteDue(webhookId: string, userId: string | undefined, now: number): void {
    const account = userId ?? this.#webhooks.get(webhookId)?.account.userId ?? unknownAccount;
    const webhook = this.of({ webhookId, userId: account }, now);
    this.#serial += 1;
    webhook.dueSerial = this.#serial;
    this.#keep(webhook);
    webhook.account.due.add(webhook);
    this.#due.add(webhook.account);
  }

  /** Whether more of what is due of the webhook's account may be claimed, now that one of its attempts has ended. */
  mayClaim({ account }: ScheduledWebhook<Item>, now: number): boolean {
    const hasDue = account.due.size > 0 || (this.#accounts.get(unknownAccount)?.due.size ?? 0) > 0;
    return hasDue && this.#wantedOf(account, now) > 0;
  }

  /** Whether webhooks wait because no more was wanted in all, although they have room themselves, and more is wanted now. */
  get mayClaimOthers(): boolean {
    return this.#isFull && this.hasDue && this.wantedInAll > 0;
  }

  /** How many attempts of which webhooks to claim next: evenly among webhooks, and an account's part evenly among its own. */
  nextClaims(now: number): Map<string, ClaimShare> {
    const limit = this.wantedInAll;
    const picked = takeInTurn(this.#candidates(now), Math.min(webhooksAtOnce, limit));
    const parts = new Map<Account<Item>, { left: number; webhooks: number }>();
    for (const { webhook } of picked) {
      const part = parts.get(webhook.account) ?? { left: this.#wantedOf(webhook.account, now), webhooks: 0 };
      part.webhooks += 1;
      parts.set(webhook.account, part);
    }
    const shares = new Map<string, ClaimShare>();
    let left = limit;
    picked.forEach(({ webhook, wanted }, i) => {
      const part = parts.get(webhook.account) ?? { left: 0, webhooks: 1 };
      const count = Math.min(wanted, Math.ceil(left / (picked.length - i)), Math.ceil(part.left / part.webhooks));
      shares.set(webhook.ref.webhookId, { count, serial: webhook.dueSerial });
      left -= count;
      part.left -= count;
      part.webhooks -= 1;
    });
    this.#isFull = left === 0;
    return shares;
  }

  /** What was read of these shares. Moves the webhooks to the end of the line, or out of it if nothing is left. */
  served(shares: ReadonlyMap<string, ClaimShare>, found: readonly Readonly<WebhookRef>[], now: number): void {
    const counts = new Map<string, number>();
    for (const ref of found) {
      counts.set(ref.webhookId, (counts.get(ref.webhookId) ?? 0) + 1);
      this.of(ref, now);
    }
    const accounts = new Set<Account<Item>>();
    for (const [webhookId, { count, serial }] of shares) {
      const webhook = this.#webhooks.get(webhookId);
      if (!webhook || webhook.dueSerial === 0) continue;
      webhook.isBehind = (counts.get(webhookId) ?? 0) >= count;
      webhook.account.due.delete(webhook);
      accounts.add(webhook.account);
      if (webhook.isBehind || webhook.dueSerial !== serial) webhook.account.due.add(webhook);
      else {
        webhook.dueSerial = 0;
        this.#forgetIdle(webhook);
      }
    }
    for (const account of accounts) {
      this.#due.delete(account);
      if (account.due.size > 0) this.#due.add(account);
    }
  }

  // Shares.

  /** The places of an account. */
  #places({ sending, allowance }: Account<Item>): number {
    return dynamicThreshold(this.#concurrency - this.#sending + sending, allowance, this.#concurrency);
  }

  /** The places of a webhook. */
  #placesOf({ account, sending }: ScheduledWebhook<Item>): number {
    const left = this.#places(account) - (account.sending - sending);
    return Math.min(this.#perWebhook, dynamicThreshold(left, 2, 3));
  }

  #ofAccount(account: Account<Item>, now: number): Level {
    const { held, allowance } = account;
    const places = this.#places(account);
    const most = dynamicThreshold(this.#maxHeld - this.#held + held, allowance, this.#concurrency);
    return { held, places, limit: Math.min(places + aheadOf(account, places, now), most) };
  }

  #ofWebhook(webhook: ScheduledWebhook<Item>, now: number): Level {
    const places = this.#placesOf(webhook);
    return { held: webhook.held, places, limit: places + aheadOf(webhook, places, now) };
  }

  /** How many more attempts of a webhook are worth a query, if any of its account are. */
  #wanted(webhook: ScheduledWebhook<Item>, now: number): number {
    if (webhook.account.userId === unknownAccount) return unknownShare;
    const isLimitLow = this.limits.isLow(webhook.ref.webhookId, webhook.held - webhook.sending, now);
    return isLimitLow && wantedIn(this.#ofWebhook(webhook, now)) > 0 ? this.room(webhook, now) : 0;
  }

  /** How many more attempts of an account are worth a query. */
  #wantedOf(account: Account<Item>, now: number): number {
    return account.userId === unknownAccount ? Number.POSITIVE_INFINITY : wantedIn(this.#ofAccount(account, now));
  }

  /** For each account in turn, its webhooks with something due of which something is wanted. */
  *#candidates(now: number) {
    for (const account of this.#due) yield this.#candidatesOf(account, now);
  }

  *#candidatesOf(account: Account<Item>, now: number) {
    let left = this.#wantedOf(account, now);
    for (const webhook of account.due) {
      if (left <= 0) return;
      const wanted = this.#wanted(webhook, now);
      if (wanted <= 0) continue;
      left -= 1;
      yield { webhook, wanted };
    }
  }

  // Which webhooks and accounts are known.

  #keep(webhook: ScheduledWebhook<Item>): void {
    const { ref, account } = webhook;
    if (this.#webhooks.get(ref.webhookId) === webhook) return;
    this.#webhooks.set(ref.webhookId, webhook);
    // another new webhook of the account may have been kept meanwhile
    webhook.account = this.#accounts.get(account.userId) ?? account;
    this.#accounts.set(account.userId, webhook.account);
    webhook.account.webhooks += 1;
  }

  #forgetIdle(webhook: ScheduledWebhook<Item>): void {
    if (webhook.held > 0 || webhook.dueSerial > 0) return;
    const { account } = webhook;
    this.#webhooks.delete(webhook.ref.webhookId);
    account.webhooks -= 1;
    if (account.webhooks === 0) this.#accounts.delete(account.userId);
  }

  /** The account of a webhook that has something due has become known. */
  #learnAccount(webhook: ScheduledWebhook<Item>, userId: string, now: number): ScheduledWebhook<Item> {
    const { account, ref, dueSerial, isBehind } = webhook;
    if (account.userId !== unknownAccount) return webhook;
    account.due.delete(webhook);
    if (account.due.size === 0) this.#due.delete(account);
    webhook.dueSerial = 0;
    this.#forgetIdle(webhook);
    const known = { ...this.of({ webhookId: ref.webhookId, userId }, now), dueSerial, isBehind };
    this.#keep(known);
    known.account.due.add(known);
    this.#due.add(known.account);
    return known;
  }
}

/** How many more attempts may be held. */
function roomIn({ held, limit }: Level): number {
  return Math.max(0, limit - held);
}

/** The same, but none while half of those claimed ahead are left: claiming a few costs as much as claiming many. */
function wantedIn(level: Level): number {
  return level.held < (level.places + level.limit) / 2 ? roomIn(level) : 0;
}

/** How many attempts may be claimed beyond the places. */
function aheadOf({ sending, mean, lastEnd }: Load, places: number, now: number): number {
  const hangs = sending >= places && now - lastEnd > prefetchHorizon;
  return hangs ? 0 : Math.min(Math.floor((places * prefetchHorizon) / Math.max(mean, 1)), places * aheadLimit);
}

/** One item of each line in turn, then a second one of each, and so on, up to `limit`; asks the lines for no more. */
function takeInTurn<T>(lines: Iterable<Iterator<T>>, limit: number): T[] {
  const taken: T[] = [];
  for (let remaining = lines; taken.length < limit; ) {
    const rest: Iterator<T>[] = [];
    for (const line of remaining) {
      const { done, value } = line.next();
      if (done) continue;
      rest.push(line);
      if (taken.push(value) === limit) return taken;
    }
    if (rest.length === 0) return taken;
    remaining = rest;
  }
  return taken;
}
