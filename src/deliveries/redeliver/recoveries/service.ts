import { GatewayError, refuse } from '../../../errors.ts';
import { checkUserId, isId, newId } from '../../../ids.ts';
import { durableCollection } from '../../../mongo/collection.ts';
import { findOneConfirmed } from '../../../mongo/confirmed-reads.ts';
import { checkPage, checkTimes, type Page, pageLimit } from '../../../mongo/list-page.ts';
import type { Logger } from '../../../options/options.ts';
import { webhookInactive } from '../manual-attempt.ts';
import type { FindRecoverable } from '../recoverable.ts';
import type { Redeliver } from '../send-for-recovery.ts';
import type { RecoveryDocument, RecoveryModel, RecoveryState } from './model.ts';
import { createRecoveryStore } from './recovery-store.ts';
import { createRunRecovery, maxRecovered } from './run-recovery.ts';
import { createRecoveryRunner } from './runner.ts';
import { createSendBatch } from './send-batch.ts';

/** What to recover. */
export interface RecoveryRequest {
  /** Events published at this moment or later. */
  readonly since: Date;
  /** Events published before this moment. @default the present one */
  readonly until?: Date;
  /** @default all three */
  readonly states?: readonly RecoveryState[];
}

/** Recoveries of an account's webhooks. A webhook of another account counts as unknown. */
export interface RecoveryService {
  /**
   * Starts to send again what a webhook has missed. Any started process runs the recovery.
   * @throws GatewayError `webhook_not_found`, `invalid_value`, `webhook_inactive`, `recovery_running`
   */
  recover(userId: string, webhookId: string, request: RecoveryRequest): Promise<RecoveryDocument>;
  /** @throws GatewayError `webhook_not_found`, `recovery_not_found` */
  get(userId: string, webhookId: string, id: string): Promise<RecoveryDocument>;
  /**
   * Newest first.
   * @throws GatewayError `webhook_not_found`, `invalid_value`
   */
  list(
    userId: string,
    webhookId: string,
    page?: Page,
  ): Promise<{ readonly recoveries: RecoveryDocument[]; readonly hasMore: boolean }>;
  /** Runs recoveries in this process from now on. */
  start(): void;
  /** Waits for attempts in flight and leaves the rest to other processes. */
  close(): Promise<void>;
}

/** Durations are milliseconds. */
export interface RecoveryServiceDeps {
  readonly recoveries: RecoveryModel;
  readonly find: FindRecoverable;
  readonly redeliver: Redeliver;
  /**
   * Unless `suffices` is true of the webhook that a usual read finds, a confirmed read follows.
   * @throws GatewayError `webhook_not_found`, also for a webhook of another account
   */
  readonly webhook: (
    userId: string,
    id: string,
    suffices: (webhook: { readonly active: boolean }) => boolean,
  ) => Promise<{ readonly active: boolean }>;
  /** Attempts a second, for each recovery. */
  readonly rate: number;
  /** How long events and deliveries are kept, and recoveries after their end. */
  readonly retention: number;
  /** How long a lease lasts: after that, another process may run a dead process's recoveries. */
  readonly lease: number;
  /** How often waiting recoveries are looked for. */
  readonly interval: number;
  readonly logger: Logger;
}

const allStates: readonly RecoveryState[] = ['failed', 'canceled', 'skipped'];

function checkSpan(since: Date, until: Date, now: number, retention: number): void {
  checkTimes({ since, until });
  if (since.getTime() > now) refuse('invalid_value', 'since', 'must not be in the future');
  if (since.getTime() < now - retention) {
    refuse('invalid_value', 'since', `must be within the last ${retention / 86_400_000} days; nothing older is kept`);
  }
  if (until <= since) refuse('invalid_value', 'until', 'must be after since');
}

export function createRecoveryService(deps: RecoveryServiceDeps): RecoveryService {
  const { recoveries, find, webhook, retention, lease, logger } = deps;
  const collection = durableCollection(recoveries);
  const store = createRecoveryStore({ recoveries, owner: newId('wrk', Date.now()), lease, retention });
  const sendBatch = createSendBatch(deps.redeliver, logger);
  const runRecovery = createRunRecovery({ store, find, sendBatch, rate: deps.rate, renewInterval: lease / 3, logger });
  const runner = createRecoveryRunner({ store, runRecovery, interval: deps.interval, logger });

  return {
    async recover(userId, webhookId, { since, until, states = allStates }) {
      checkUserId(userId);
      const { active } = await webhook(userId, webhookId, (found) => found.active);
      const startedAt = new Date();
      const selection = { userId, webhookId, states: [...states], since, until: until ?? startedAt };
      checkSpan(since, selection.until, startedAt.getTime(), retention);
      if (!active) throw webhookInactive(webhookId);
      const recovery = await store.start({
        _id: newId('rec', startedAt.getTime()),
        ...selection,
        state: 'running',
        found: await find.count(selection, maxRecovered),
        resent: 0,
        delivered: 0,
        failed: 0,
        phase: 'deliveries',
        after: null,
        batch: [],
        seen: 0,
        lease: null,
        startedAt,
      });
      runner.runNow();
      return recovery;
    },

    async get(userId, webhookId, id) {
      checkUserId(userId);
      await webhook(userId, webhookId, () => true);
      const recovery = isId('rec', id) ? await findOneConfirmed(collection, { _id: id, webhookId, userId }) : null;
      if (recovery) return recovery;
      throw new GatewayError(
        'recovery_not_found',
        `No recovery ${id} is of this webhook; GET /v1/webhooks/${webhookId}/recoveries lists those that are`,
        { param: 'recovery_id' },
      );
    },

    async list(userId, webhookId, page = {}) {
      const { limit = pageLimit, after } = page;
      checkUserId(userId);
      checkPage(page, 'rec');
      await webhook(userId, webhookId, () => true);
      const documents = await collection
        .find({ webhookId, userId, ...(after !== undefined && { _id: { $lt: after } }) })
        .sort({ _id: -1 })
        .limit(limit + 1)
        .toArray();
      return { recoveries: documents.slice(0, limit), hasMore: documents.length > limit };
    },

    start: runner.start,
    close: runner.close,
  };
}
