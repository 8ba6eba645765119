import type { CancelReason, DeliveryState } from '../../../src/deliveries/model.ts';

/** What a delivery should be. */
export interface ModelDelivery {
  readonly id: string;
  readonly webhookId: string;
  isStored: boolean;
  state: DeliveryState;
  reason?: CancelReason;
  attempt: number;
  starts: number;
  /** The attempt that has the lease, as the database knows. */
  holder: number | null;
  isClaimable: boolean;
  /** How often its lease was renewed or has lapsed. */
  leaseChanges: number;
  attempts: { readonly number: number; readonly ok: boolean }[];
}

/** What an event should be. */
export interface ModelEvent {
  readonly id: string;
  readonly deliveries: readonly string[];
  isDone: boolean;
  /** Whether nobody has a lease on it. */
  isFree: boolean;
  leases: number;
  /** How often its lease was renewed or has lapsed. */
  leaseChanges: number;
}

/** An attempt that a process believes to be its own. */
export interface ModelAttempt {
  readonly serial: number;
  readonly process: number;
  readonly deliveryId: string;
  readonly number: number;
  /** Whether its process has still to make the first write of the delivery. */
  isUnwritten: boolean;
}

/** A process that makes the deliveries of an event, and which first writes it waits for. */
export interface FanOut {
  readonly process: number;
  readonly event: ModelEvent;
  /** Which of the event's leases it has; another process may have got one since. */
  lease: number;
  readonly writes: Set<number>;
}

/** An attempt that a process schedules for when it is due. */
export type Scheduled = Pick<ModelDelivery, 'id' | 'attempt'>;

/** An attempt begun, as its process tells. */
export type Begun = Pick<ModelAttempt, 'serial' | 'process' | 'deliveryId'>;

export const maxAttempts = 6;

/** Events, deliveries and attempts as they should be, without a database, without time, and with one thing at a time. */
export class DeliveryModel {
  readonly webhooks = new Map<string, 'active' | 'inactive' | 'deleted'>();
  readonly events = new Map<string, ModelEvent>();
  readonly deliveries = new Map<string, ModelDelivery>();
  readonly attempts = new Map<number, ModelAttempt>();
  readonly scheduled: Scheduled[] = [];
  /** The webhooks of deliveries that were stored for workers to claim. */
  readonly looks: string[] = [];
  readonly #fanOuts = new Set<FanOut>();

  /** @param begun the attempts that are made of it at once; `null` where they are left to others */
  publish(
    id: string,
    targets: ReadonlyMap<string, string>,
    lease: 'none' | 'begun' | 'stored',
    begun: readonly Begun[],
  ) {
    const deliveries = [...targets.keys()];
    const event = { id, deliveries, isDone: false, isFree: lease === 'none', leases: 0, leaseChanges: 0 };
    this.events.set(id, event);
    for (const [deliveryId, webhookId] of targets) {
      this.deliveries.set(deliveryId, {
        id: deliveryId,
        webhookId,
        isStored: false,
        state: 'pending',
        attempt: 1,
        starts: 0,
        holder: null,
        isClaimable: false,
        leaseChanges: 0,
        attempts: [],
      });
    }
    if (lease === 'none') return;
    event.leases = 1;
    const [{ process } = { process: -1 }] = begun;
    if (lease === 'begun') this.#begin(event, process, begun);
    else this.#storeAll(event, 0);
  }

  /** Which events a sweep takes. */
  free(): ModelEvent[] {
    return [...this.events.values()].filter(({ isDone, isFree }) => !isDone && isFree);
  }

  /** A process has taken an event that was free. @param hasRoom whether it makes first attempts at once */
  take(event: ModelEvent, process: number, hasRoom: boolean, begun: readonly Begun[]): void {
    this.takeAndStop(event);
    const own = [...this.#fanOuts].find((one) => one.event === event && one.process === process);
    if (own) {
      own.lease = event.leases;
      return;
    }
    if (event.leases === 1 && hasRoom) this.#begin(event, process, begun);
    else this.#storeAll(event, event.leases === 1 ? 0 : 1);
  }

  /** The same, but the process has stopped right after that. */
  takeAndStop(event: ModelEvent): void {
    event.isFree = false;
    event.leases += 1;
  }

  /** The fan-outs that are under way, as their processes believe. */
  fanOuts(): FanOut[] {
    return [...this.#fanOuts].filter(({ event }) => !event.isDone);
  }

  /** A process renews the leases of its fan-outs; a lease that another process has got since stays as it is. */
  renewEvents(process: number): FanOut[] {
    const own = this.fanOuts().filter((one) => one.process === process);
    for (const { event, lease } of own) {
      if (lease === event.leases) Object.assign(event, { isFree: false, leaseChanges: event.leaseChanges + 1 });
    }
    return own;
  }

  eventLapses(event: ModelEvent): void {
    event.isFree = true;
    event.leaseChanges += 1;
  }

  lapses(delivery: ModelDelivery): void {
    delivery.isClaimable = true;
    delivery.leaseChanges += 1;
  }

  /** Whether it is claimed. */
  canClaim({ isStored, state, isClaimable }: ModelDelivery): boolean {
    return isStored && state === 'pending' && isClaimable;
  }

  /** Claims one that can be; whether there is something to send. */
  claim(delivery: ModelDelivery, begun: Begun): boolean {
    Object.assign(delivery, { holder: begun.serial, isClaimable: false, starts: delivery.starts + 1 });
    if (delivery.starts > 4) {
      this.#record(delivery, delivery.attempt, false);
      return false;
    }
    if (this.#canceled(delivery)) return false;
    this.attempts.set(begun.serial, { ...begun, number: delivery.attempt, isUnwritten: false });
    return true;
  }

  finish(attempt: ModelAttempt, ok: boolean): void {
    const delivery = this.#over(attempt);
    if (delivery.holder === attempt.serial || this.#writesFirst(attempt, delivery)) {
      this.#record(delivery, attempt.number, ok);
    } else if (ok) this.#recordLate(delivery, attempt.number);
  }

  /** Its process closes without having stored what came of it. */
  giveUp(attempt: ModelAttempt): void {
    this.#over(attempt);
    for (const fanOut of this.#fanOuts) if (fanOut.writes.has(attempt.serial)) this.#fanOuts.delete(fanOut);
  }

  giveBack(attempt: ModelAttempt): void {
    const delivery = this.#over(attempt);
    const isFirst = this.#writesFirst(attempt, delivery);
    if (!isFirst && delivery.holder !== attempt.serial) return;
    const starts = isFirst ? 0 : delivery.starts - 1;
    Object.assign(delivery, { isStored: true, holder: null, isClaimable: true, starts });
  }

  /** First attempts take long. */
  storeSlow(): void {
    for (const attempt of this.attempts.values()) {
      if (!attempt.isUnwritten) continue;
      const delivery = this.#deliveryOf(attempt);
      if (this.#writesFirst(attempt, delivery)) {
        Object.assign(delivery, { isStored: true, holder: attempt.serial, starts: 1 });
      }
    }
  }

  /** Attempts under leases of their own, as their processes believe. */
  held(): ModelAttempt[] {
    return [...this.attempts.values()].filter(({ isUnwritten }) => !isUnwritten);
  }

  /** A process renews the leases of its attempts; a lease that another attempt has got since stays as it is. */
  renew(process: number): { readonly asked: ModelAttempt[]; readonly renewed: ModelAttempt[] } {
    const asked = this.held().filter((one) => one.process === process);
    const renewed = asked.filter((one) => this.#deliveryOf(one).holder === one.serial);
    for (const attempt of renewed) {
      const delivery = this.#deliveryOf(attempt);
      Object.assign(delivery, { isClaimable: false, leaseChanges: delivery.leaseChanges + 1 });
    }
    return { asked, renewed };
  }

  #deliveryOf({ deliveryId }: Begun): ModelDelivery {
    return this.deliveries.get(deliveryId) as ModelDelivery;
  }

  #over(attempt: ModelAttempt): ModelDelivery {
    this.attempts.delete(attempt.serial);
    return this.#deliveryOf(attempt);
  }

  #begin(event: ModelEvent, process: number, begun: readonly Begun[]): void {
    const writes = new Set(begun.map(({ serial }) => serial));
    this.#fanOuts.add({ process, event, lease: event.leases, writes });
    for (const one of begun) {
      const attempt = { ...one, number: 1, isUnwritten: true };
      const delivery = this.#deliveryOf(one);
      this.attempts.set(one.serial, attempt);
      if (!this.#canceled(delivery)) continue;
      this.#writesFirst(attempt, delivery);
      this.attempts.delete(one.serial);
    }
    this.#markDone();
  }

  /** As it is for whoever claims it, where it is not there yet. */
  #storeAll(event: ModelEvent, starts: number): void {
    for (const id of event.deliveries) {
      const delivery = this.deliveries.get(id) as ModelDelivery;
      if (delivery.isStored) continue;
      Object.assign(delivery, { isStored: true, isClaimable: true, starts });
      this.looks.push(delivery.webhookId);
    }
    event.isDone = true;
  }

  /** Its process makes the first write, or finds that there was one. Whether it was the first. */
  #writesFirst(attempt: ModelAttempt, delivery: ModelDelivery): boolean {
    if (!attempt.isUnwritten) return false;
    attempt.isUnwritten = false;
    for (const { writes } of this.#fanOuts) writes.delete(attempt.serial);
    this.#markDone();
    return !delivery.isStored;
  }

  #markDone(): void {
    for (const fanOut of this.#fanOuts) {
      if (fanOut.writes.size > 0) continue;
      fanOut.event.isDone = true;
      this.#fanOuts.delete(fanOut);
    }
  }

  #canceled(delivery: ModelDelivery): boolean {
    const webhook = this.webhooks.get(delivery.webhookId);
    if (webhook === 'active') return false;
    const reason = webhook === 'inactive' ? 'webhook_inactive' : 'webhook_deleted';
    this.#end(delivery, 'canceled');
    delivery.reason = reason;
    return true;
  }

  #end(delivery: ModelDelivery, state: DeliveryState): void {
    delete delivery.reason;
    Object.assign(delivery, { isStored: true, state, holder: null, starts: 0, isClaimable: false });
  }

  #record(delivery: ModelDelivery, number: number, ok: boolean): void {
    delivery.attempts.push({ number, ok });
    if (ok || number === maxAttempts) {
      this.#end(delivery, ok ? 'delivered' : 'failed');
      return;
    }
    Object.assign(delivery, { isStored: true, attempt: number + 1, starts: 0, holder: null, isClaimable: false });
    this.scheduled.push({ id: delivery.id, attempt: delivery.attempt });
  }

  /** Others have had the attempt since. */
  #recordLate(delivery: ModelDelivery, number: number): void {
    const i = delivery.attempts.findIndex((one) => one.number === number);
    if (delivery.attempts[i]?.ok) return;
    delivery.attempts.splice(i < 0 ? delivery.attempts.length : i, i < 0 ? 0 : 1, { number, ok: true });
    if (delivery.state === 'pending') delivery.attempt = number;
    this.#end(delivery, 'delivered');
  }
}
