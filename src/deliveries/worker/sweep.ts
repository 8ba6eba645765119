import { createPeriodic, type OnRun, type Periodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { FanOutSweep } from '../fan-out/fan-out-sweep.ts';
import type { ClaimableAttempts } from './claimable-attempts.ts';
import { createSweepCursor } from './sweep-cursor.ts';
import type { WebhookBacklog } from './webhook-backlog.ts';

/** Deliveries in one page. */
const pageSize = 1_000;

export interface SweepDeps {
  readonly due: Pick<ClaimableAttempts, 'look'>;
  readonly backlog: Pick<WebhookBacklog, 'add' | 'resume'>;
  readonly fanOuts: Pick<FanOutSweep, 'page' | 'take'>;
  /** Milliseconds. */
  readonly interval: number;
  /** Called after each sweep. @default nobody is */
  readonly onSwept?: OnRun;
  readonly logger: Logger;
}

/** Looks for deliveries that are due and unclaimed, and for events that no process holds. */
export function createSweep({ due, backlog, fanOuts, interval, onSwept, logger }: SweepDeps): Periodic {
  const cursor = createSweepCursor();

  /** Reads one page of what is due, so that a long backlog makes no sweep slower. */
  async function sweepPage(): Promise<void> {
    const { webhookIds, next, events } = await due.look(cursor.begin(), pageSize, fanOuts.page());
    cursor.reached(next);
    for (const webhookId of webhookIds) backlog.add(webhookId);
    backlog.resume();
    const hasMoreEvents = await fanOuts.take(events);
    if (next || hasMoreEvents) sweep.runNow();
  }

  const sweep = createPeriodic({
    name: 'the sweep',
    task: sweepPage,
    interval,
    ...(onSwept && { onRun: onSwept }),
    logger,
  });
  return sweep;
}
