import { randomUUID } from 'node:crypto';
import type { FanOutLease } from '../../events/store/stored-event.ts';
import { createBatcher } from '../../mongo/batcher.ts';
import { type DatabaseClock, timeSince } from '../../mongo/clock.ts';
import { insertOnly } from '../../mongo/collection.ts';
import { createPeriodic } from '../../mongo/periodic.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import { persist } from '../../mongo/writes/persist.ts';
import type { Logger } from '../../options/options.ts';
import { type AttemptResult, type Claim, type Next, recordOf } from '../attempt/claim.ts';
import type { Claims } from '../attempt/claims.ts';
import type { Leases } from '../attempt/leases.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';

/** How often the first attempts that take long are looked for. Milliseconds. */
const lookInterval = 50;
/** Deliveries in one write. */
const maxSize = 500;
/** Retries in one write: the server plans and parses a statement for each. */
const retriesMaxSize = 100;
const concurrency = 2;
/** How long the outcome of an attempt waits for others; if the process dies meanwhile, the attempt is made again. Milliseconds. */
const maxDelay = 5;

/** Durations are milliseconds. */
export interface FirstWritesDeps {
  readonly deliveries: DeliveryModel;
  readonly claims: Claims;
  readonly leases: Pick<Leases, 'hold'>;
  readonly clock: DatabaseClock;
  /** Names the worker in its leases. */
  readonly owner: string;
  readonly lease: number;
  /** How long a delivery is kept after its end. */
  readonly retention: number;
  /** After this time, a first attempt that has not ended is stored as claimed. @default 250 */
  readonly storeAfter?: number;
  readonly logger: Logger;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
}

/**
 * Writes deliveries whose first attempt is made before they are stored, under the lease of their event. The outcome is their
 * first write. The `_id`, derived from event and webhook, is the fence: a second first write changes nothing.
 */
export interface FirstWrites {
  /** The same claims, which insert the outcome if the delivery is not stored yet. */
  readonly claims: Claims;
  /** Claims a delivery that is not stored yet. `written` resolves when it is stored, and rejects if this process will not store it. */
  begin(delivery: DeliveryDocument, lease: FanOutLease): { readonly claim: Claim; readonly written: Promise<void> };
  /** Stores a delivery for any worker to claim. Resolves with whether it is new; does nothing if it is stored already. */
  store(delivery: DeliveryDocument): Promise<boolean>;
}

/** A delivery that is not stored yet. */
interface Unwritten {
  readonly since: number;
  /** Whether the outcome of its attempt is being stored. */
  hasOutcome: boolean;
  /** Set while it is being stored as claimed; resolves with whether it was. Never rejects. */
  storing: Promise<boolean> | undefined;
  readonly settle: (failure?: Error) => void;
}

type InsertResult = { readonly isNew: boolean } | { readonly error: unknown };

interface Retry {
  readonly document: DeliveryDocument;
  readonly retryIn: number;
}

/** Inserts it, unless it exists, as due in `retryIn` ms by the database's own clock, so that no attempt is early. */
function toUpsert({ document, retryIn }: Retry) {
  const due = { $add: ['$$NOW', retryIn] };
  const u = insertOnly(document, { dueAt: due, claimableAt: due }, 'eventId');
  return { q: { _id: document._id }, u, upsert: true };
}

export function createFirstWrites(deps: FirstWritesDeps): FirstWrites {
  const { claims, leases, clock, owner, lease, retention } = deps;
  const { insertEach, updateEach } = bareWrites(deps.deliveries);
  /** The oldest first. */
  const unwritten = new Map<Claim, Unwritten>();

  const inserts = createBatcher<DeliveryDocument, InsertResult>({
    maxSize,
    concurrency,
    maxDelay,
    async write(documents) {
      const { failures } = await insertEach(documents);
      return documents.map((_, i) => {
        const error = failures.get(i);
        return error && !isDuplicateKey(error) ? { error } : { isNew: error === undefined };
      });
    },
  });

  const retries = createBatcher<Retry, boolean>({
    maxSize: retriesMaxSize,
    concurrency,
    maxDelay,
    async write(group) {
      const { inserted } = await updateEach(group.map(toUpsert));
      return group.map((_, i) => inserted.has(i));
    },
  });

  /** Resolves with whether the delivery is new. */
  async function insert(document: DeliveryDocument): Promise<boolean> {
    const outcome = await inserts.add(document);
    if ('error' in outcome) throw outcome.error;
    return outcome.isNew;
  }

  /** The delivery as it is once it has ended. */
  function ended(delivery: DeliveryDocument, endedAt: Date, more: Partial<DeliveryDocument>): DeliveryDocument {
    const { claimableAt: _, ...rest } = delivery;
    return { ...rest, ...more, endedAt, expiresAt: new Date(endedAt.getTime() + retention) };
  }

  async function insertOutcome(claim: Claim, result: AttemptResult, next: Next): Promise<boolean> {
    const { delivery } = claim;
    const attempts = [recordOf(claim, result)];
    // from the same reading of the clock as the start: another reading may be a little earlier
    const endedAt = new Date(claim.startedAt.getTime() + result.durationMs);
    if ('state' in next) return insert(ended(delivery, endedAt, { state: next.state, attempts }));
    return retries.add({ document: { ...delivery, attempt: delivery.attempt + 1, attempts }, retryIn: next.retryIn });
  }

  /** @throws if it is unknown whether it was stored */
  async function insertClaimed(claim: Claim): Promise<boolean> {
    const { delivery, token, startedAt } = claim;
    // taken before the clock is read: a process that stands still in between holds its lease for less time, not for more
    const asked = performance.now();
    const claimableAt = new Date((await clock.now()).getTime() + lease);
    const isNew = await insert({ ...delivery, lease: { owner, token, startedAt }, claimableAt, starts: 1 });
    // an earlier try may have stored it and lost the answer: renewing the lease tells
    leases.hold(claim, isNew ? asked + lease : claim.heldUntil);
    return isNew;
  }

  function settle(claim: Claim, failure?: Error): void {
    unwritten.get(claim)?.settle(failure);
    unwritten.delete(claim);
    if (unwritten.size === 0) void looking.stop();
  }

  /** If this fails, the delivery is stored with its outcome. */
  async function storeClaimed(claim: Claim, entry: Unwritten): Promise<boolean> {
    try {
      const isNew = await persist(async () => !entry.hasOutcome && (await insertClaimed(claim)), deps);
      if (!entry.hasOutcome) settle(claim);
      return isNew;
    } catch {
      return false;
    }
  }

  function storeSlow(): void {
    const before = performance.now() - (deps.storeAfter ?? 250);
    for (const [claim, entry] of unwritten) {
      if (entry.since > before) return;
      entry.storing ??= storeClaimed(claim, entry);
    }
  }

  const looking = createPeriodic({
    name: 'storing attempts that take long',
    task: storeSlow,
    interval: lookInterval,
    initialDelay: lookInterval,
    logger: deps.logger,
  });

  /** Resolves with whether this was the delivery's first write. If not, the claim's token decides. */
  async function writeFirst(claim: Claim, write: () => Promise<boolean>): Promise<boolean> {
    const entry = unwritten.get(claim);
    if (!entry) return false;
    entry.hasOutcome = true;
    const isNew = !(await entry.storing) && (await write());
    settle(claim);
    return isNew;
  }

  return {
    claims: {
      ...claims,
      async finish(claim, result, next) {
        const isFirst = await writeFirst(claim, () => insertOutcome(claim, result, next));
        return isFirst || claims.finish(claim, result, next);
      },
      async cancel(claim, reason) {
        const cancel = async () => insert(ended(claim.delivery, await clock.now(), { state: 'canceled', reason }));
        return (await writeFirst(claim, cancel)) || claims.cancel(claim, reason);
      },
      async release(claim, wait) {
        const insertDue = async () => {
          const claimableAt = new Date((await clock.now()).getTime() + wait);
          return insert({ ...claim.delivery, claimableAt });
        };
        if (!(await writeFirst(claim, insertDue))) await claims.release(claim, wait);
      },
      forget(claim) {
        settle(claim, new Error('the delivery was not stored'));
      },
    },
    begin(delivery, { heldUntil, since }) {
      const claim = { delivery, token: randomUUID(), startedAt: timeSince(since), heldUntil };
      const written = new Promise<void>((resolve, reject) => {
        const settle = (failure?: Error) => (failure ? reject(failure) : resolve());
        unwritten.set(claim, { since: performance.now(), hasOutcome: false, storing: undefined, settle });
      });
      looking.start();
      return { claim, written };
    },
    store: insert,
  };
}
