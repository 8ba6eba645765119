import { expect } from 'chai';
import fc from 'fast-check';
import { Schedule, type ScheduledWebhook, type ScheduleOptions } from '../../src/deliveries/schedule.ts';

/** How the receiver of a webhook answers: after so many milliseconds, or never while the model runs. */
type Receiver = 'quick' | 'slow' | 'hanging';
const durations: Readonly<Record<Receiver, number>> = { quick: 50, slow: 3_000, hanging: 30_000 };
/** A request that takes longer counts as slow. Milliseconds. */
const slow = 2_000;

interface Attempt {
  readonly webhook: ScheduledWebhook<Attempt>;
}

interface Step {
  readonly what: 'publish' | 'store' | 'answer' | 'sweep' | 'no place';
  readonly webhook: number;
  readonly count: number;
}

/** What the product says of an account's places, kept apart from the schedule. */
interface AccountModel {
  sending: number;
  held: number;
  allowance: number;
}

/**
 * Runs a schedule as the scheduler does, with a database and receivers in memory, and checks its promises after each step.
 * Of the webhook `i` are the account `i % accounts` and the receiver `receivers[i]`.
 */
class Model {
  readonly #options: ScheduleOptions;
  readonly #accounts: number;
  readonly #receivers: readonly Receiver[];
  readonly #schedule: Schedule<Attempt>;
  readonly #stored: number[];
  readonly #sending: Attempt[] = [];
  readonly #waiting = new Set<Attempt>();
  readonly #models = new Map<string, AccountModel>();
  /** Turns at places that accounts with attempts that wait got since they were last served, while they could have been. */
  readonly #passedOver = new Map<string, number>();
  #now = 0;

  constructor(options: ScheduleOptions, accounts: number, receivers: readonly Receiver[]) {
    this.#options = options;
    this.#accounts = accounts;
    this.#receivers = receivers;
    this.#schedule = new Schedule(options);
    this.#stored = receivers.map(() => 0);
  }

  run({ what, webhook: number, count }: Step): void {
    const index = number % this.#receivers.length;
    this.#now += 7;
    if (what === 'publish') for (let i = 0; i < count; i += 1) this.#publish(index);
    else if (what === 'store') this.#store(index, count);
    else if (what === 'answer') for (let i = 0; i < count; i += 1) this.#answer((one) => one !== 'hanging');
    else if (what === 'no place') this.#findNoPlace();
    else this.#claim();
    this.#check();
  }

  /** Everybody answers, also those that hung, until nothing is left; sweeps come now and then. */
  drain(): void {
    const most = 20 * (this.#stored.reduce((sum, count) => sum + count, 0) + this.#sending.length + this.#waiting.size);
    for (let turn = 0; this.#schedule.inAll.held > 0 || this.#left > 0; turn += 1) {
      expect(turn, `${this.#left} stored are left`).to.be.at.most(most + 20);
      this.#now += 7;
      if (turn % 5 === 0) this.#claim();
      this.#answer(() => true);
      this.#check();
    }
    this.#claim();
    expect([this.#schedule.sending, this.#schedule.hasDue, this.#schedule.allWaiting()]).to.deep.equal([0, false, []]);
    const fresh = new Schedule<Attempt>(this.#options);
    for (let i = 0; i < this.#receivers.length; i += 1) {
      const rooms = [this.#schedule, fresh].map((one) => one.room(one.of(this.#ref(i), this.#now), this.#now));
      expect(rooms[0], 'nothing is kept of webhooks that have nothing').to.equal(rooms[1]);
    }
  }

  get #left(): number {
    return this.#stored.reduce((sum, count) => sum + count, 0);
  }

  #ref(index: number) {
    return { webhookId: String(index), userId: String(index % this.#accounts) };
  }

  #of(index: number): ScheduledWebhook<Attempt> {
    return this.#schedule.of(this.#ref(index), this.#now);
  }

  #model({ ref: { userId } }: ScheduledWebhook<Attempt>): AccountModel {
    const { concurrency, concurrencyPerAccount } = this.#options;
    const present = this.#models.get(userId);
    const model = present ?? { sending: 0, held: 0, allowance: Math.min(concurrency, concurrencyPerAccount) };
    this.#models.set(userId, model);
    return model;
  }

  #publish(index: number): void {
    const webhook = this.#of(index);
    if (this.#schedule.mayStartNew(webhook, this.#now)) this.#hold(webhook);
    else this.#store(index, 1);
  }

  #store(index: number, count: number): void {
    this.#stored[index] = (this.#stored[index] ?? 0) + count;
    // as a sweep does, which does not know the account
    this.#schedule.noteDue(String(index), index % 3 === 0 ? undefined : this.#ref(index).userId, this.#now);
    this.#claim();
  }

  #claim(): void {
    this.#stored.forEach((count, index) => {
      if (count > 0) this.#schedule.noteDue(String(index), undefined, this.#now);
    });
    for (let reads = 0; ; reads += 1) {
      expect(reads, 'reads come to an end').to.be.below(1_000);
      const shares = this.#schedule.nextClaims(this.#now);
      if (shares.size === 0) return;
      const found = [...shares].flatMap(([webhookId, { count }]) =>
        Array.from({ length: Math.min(count, this.#stored[Number(webhookId)] ?? 0) }, () =>
          this.#ref(Number(webhookId)),
        ),
      );
      this.#schedule.served(shares, found, this.#now);
      for (const ref of found) {
        const webhook = this.#schedule.of(ref, this.#now);
        if (this.#schedule.room(webhook, this.#now) === 0) {
          this.#schedule.noteDue(ref.webhookId, ref.userId, this.#now);
          continue;
        }
        this.#stored[Number(ref.webhookId)] = (this.#stored[Number(ref.webhookId)] ?? 0) - 1;
        this.#hold(webhook);
      }
    }
  }

  #hold(webhook: ScheduledWebhook<Attempt>): void {
    this.#schedule.hold(webhook);
    this.#model(webhook).held += 1;
    const attempt = { webhook };
    if (this.#schedule.hasPlace(webhook)) {
      this.#begin(attempt);
      return;
    }
    const { userId } = webhook.ref;
    if (![...this.#waiting].some((other) => other.webhook.ref.userId === userId)) this.#passedOver.delete(userId);
    this.#waiting.add(attempt);
    this.#schedule.wait(webhook, attempt);
  }

  #begin(attempt: Attempt): void {
    const { webhook } = attempt;
    const { concurrency, concurrencyPerWebhook } = this.#options;
    const model = this.#model(webhook);
    const others = this.#schedule.sending - model.sending;
    const places = Math.max(1, Math.floor((model.allowance * (concurrency - others)) / concurrency));
    expect(model.sending, "an account's places").to.be.below(places);
    this.#schedule.begin(webhook);
    model.sending += 1;
    this.#sending.push(attempt);
    expect(webhook.sending).to.be.at.most(concurrencyPerWebhook);
    expect(this.#schedule.sending).to.be.at.most(concurrency);
  }

  /** The request that has been under way longest ends. */
  #answer(does: (receiver: Receiver) => boolean): void {
    const receiverOf = ({ webhook }: Attempt) => this.#receivers[Number(webhook.ref.webhookId)] ?? 'quick';
    const at = this.#sending.findIndex((attempt) => does(receiverOf(attempt)));
    const [attempt] = at < 0 ? [] : this.#sending.splice(at, 1);
    if (!attempt) return;
    const { webhook } = attempt;
    const duration = durations[receiverOf(attempt)];
    const model = this.#model(webhook);
    const { concurrency, concurrencyPerAccount } = this.#options;
    const first = Math.min(concurrency, concurrencyPerAccount);
    const largest = Math.max(first, concurrency - Math.floor(concurrency / 10));
    this.#schedule.end(webhook, duration, this.#now);
    model.sending -= 1;
    model.allowance =
      duration < slow ? Math.min(largest, model.allowance + 1) : Math.max(first, model.allowance - duration / slow);
    this.#sendNext();
    this.#release(webhook);
  }

  #sendNext(): void {
    for (;;) {
      const eligible = new Set(
        [...this.#waiting]
          .filter(({ webhook }) => this.#schedule.hasPlace(webhook))
          .map(({ webhook }) => webhook.ref.userId),
      );
      const next = this.#schedule.next();
      expect(next === undefined, 'a place is left free only if nothing may take it').to.equal(eligible.size === 0);
      if (!next) return;
      const { userId } = next.webhook.ref;
      this.#passedOver.set(userId, 0);
      for (const other of eligible) {
        if (other === userId) continue;
        const passed = (this.#passedOver.get(other) ?? 0) + 1;
        this.#passedOver.set(other, passed);
        expect(passed, 'each of the accounts has its turn').to.be.below(this.#accounts);
      }
      this.#waiting.delete(next.item);
      this.#begin(next.item);
    }
  }

  /** The attempt that has waited longest for a place is given back. */
  #findNoPlace(): void {
    const [attempt] = this.#waiting;
    if (!attempt) return;
    const { webhook } = attempt;
    this.#waiting.delete(attempt);
    this.#schedule.leave(webhook, attempt, true);
    const index = Number(webhook.ref.webhookId);
    this.#stored[index] = (this.#stored[index] ?? 0) + 1;
    this.#release(webhook);
  }

  #release(webhook: ScheduledWebhook<Attempt>): void {
    const model = this.#model(webhook);
    this.#schedule.release(webhook);
    this.#schedule.recorded();
    model.held -= 1;
    if (this.#schedule.mayClaim(webhook, this.#now) || this.#schedule.mayClaimOthers) this.#claim();
    // an account of which nothing is here is forgotten
    const isKnown = this.#stored.some((count, index) => count > 0 && this.#ref(index).userId === webhook.ref.userId);
    if (model.held === 0 && !isKnown) this.#models.delete(webhook.ref.userId);
  }

  #check(): void {
    const { concurrency } = this.#options;
    const isFree = this.#schedule.sending < concurrency;
    for (const attempt of this.#waiting) {
      expect(this.#schedule.hasPlace(attempt.webhook), 'nothing waits that may start').to.equal(false);
    }
    const newcomer = this.#schedule.of({ webhookId: 'new', userId: 'new' }, this.#now);
    expect(this.#schedule.hasPlace(newcomer), 'a new account may start where a place is free').to.equal(isFree);
    for (let account = 0; account < this.#accounts; account += 1) {
      if ((this.#models.get(String(account))?.sending ?? 0) > 0) continue;
      const idle = this.#schedule.of(this.#ref(account), this.#now);
      expect(this.#schedule.hasPlace(idle), 'an account with nothing under way may start').to.equal(isFree);
    }
    expect(this.#schedule.sending).to.equal(this.#sending.length);
    expect(this.#schedule.inAll).to.deep.equal({
      held: this.#sending.length + this.#waiting.size,
      places: concurrency,
      limit: 5 * concurrency,
    });
    expect(this.#schedule.allWaiting()).to.have.length(this.#waiting.size);
  }
}

describe('The fairness of the schedule', function () {
  this.timeout(60_000);

  const receiver = fc.constantFrom<Receiver>('quick', 'quick', 'slow', 'hanging');
  const step = fc.record<Step>({
    what: fc.constantFrom('publish', 'store', 'answer', 'answer', 'sweep', 'no place'),
    webhook: fc.nat(29),
    count: fc.integer({ min: 1, max: 12 }),
  });
  const scene = fc.record({
    options: fc.record({
      concurrency: fc.integer({ min: 1, max: 30 }),
      concurrencyPerAccount: fc.integer({ min: 1, max: 40 }),
      concurrencyPerWebhook: fc.integer({ min: 1, max: 12 }),
    }),
    accounts: fc.integer({ min: 1, max: 8 }),
    receivers: fc.array(receiver, { minLength: 8, maxLength: 24 }),
    steps: fc.array(step, { maxLength: 150 }),
  });

  it('holds whatever arrives, answers and hangs, and everything is sent in the end', () => {
    fc.assert(
      fc.property(scene, ({ options, accounts, receivers, steps }) => {
        const model = new Model(options, accounts, receivers);
        for (const one of steps) model.run(one);
        model.drain();
      }),
      { numRuns: 100 },
    );
  });

  it('lets accounts whose receivers hang take their first share and no more, for as long as they hang', () => {
    const hanging = fc.record({
      // of four places, three accounts take all where a share is half: two, one, and one, which is the least
      concurrency: fc.integer({ min: 5, max: 200 }),
      part: fc.double({ min: 0.05, max: 0.5, noNaN: true }),
      accounts: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(hanging, ({ concurrency, part, accounts }) => {
        const concurrencyPerAccount = Math.max(1, Math.floor(concurrency * part));
        const schedule = new Schedule<never>({
          concurrency,
          concurrencyPerAccount,
          concurrencyPerWebhook: concurrency,
        });
        for (let account = 0; account < accounts; account += 1) {
          let sending = 0;
          for (let i = 0; i < concurrency; i += 1) {
            const webhook = schedule.of({ webhookId: `${account} ${i}`, userId: String(account) }, 0);
            if (!schedule.hasPlace(webhook)) break;
            schedule.hold(webhook);
            schedule.begin(webhook);
            sending += 1;
          }
          expect(sending).to.be.at.most(concurrencyPerAccount);
        }
        expect(schedule.hasPlace(schedule.of({ webhookId: 'healthy', userId: 'healthy' }, 0))).to.equal(true);
      }),
      { numRuns: 300 },
    );
  });
});
