import { createPeriodic } from '../../mongo/periodic.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import type { MinuteCounter, MinuteCounters } from './minute-counters.ts';
import type { RateModel } from './model.ts';

/** Long enough after its minute that no process asks for it any more. Milliseconds. */
const lifetime = 180_000;

export interface SharingDeps {
  readonly rates: RateModel;
  readonly counters: MinuteCounters;
  /** This process, `wrk_…`. */
  readonly owner: string;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Tells the other processes what this one has let through, and asks what they have, again and again. */
export interface Sharing {
  /** Does nothing the second time. */
  start(): void;
  /** Resolves when the others' counts are as they were when it was called, or later. */
  exchange(): Promise<void>;
  stop(): Promise<void>;
}

function idOf({ subject, minute }: MinuteCounter): string {
  return `${minute}:${subject}`;
}

/** Only what calls have asked for since the last exchange is written and read: two commands, however many those are. */
export function createSharing({ rates, counters, owner, interval, logger }: SharingDeps): Sharing {
  const logSetAside = createSetAsideLog(logger, 'rate limits cannot be shared and count in this process alone');

  async function exchangePart(touched: readonly MinuteCounter[]): Promise<void> {
    const expiresAt = new Date(Date.now() + lifetime);
    await rates.bulkWrite(
      touched.map((counter) => ({
        updateOne: {
          filter: { _id: idOf(counter) },
          update: {
            $set: { [`used.${owner}`]: { requests: counter.requests, tokens: counter.tokens } },
            $setOnInsert: { expiresAt },
          },
          upsert: true,
        },
      })),
      { ordered: false },
    );
    const found = await rates.find({ _id: { $in: touched.map(idOf) } }).lean();
    const byId = new Map(found.map(({ _id, used }) => [_id, used]));
    for (const counter of touched) {
      const others = { requests: 0, tokens: 0 };
      for (const [process, { requests, tokens }] of Object.entries(byId.get(idOf(counter)) ?? {})) {
        if (process === owner) continue;
        others.requests += requests;
        others.tokens += tokens;
      }
      counter.others = others;
    }
  }

  async function exchange(): Promise<void> {
    const outcomes = await writeIsolated(counters.takeTouched(), {
      async write(part) {
        await exchangePart(part);
        return [];
      },
    });
    for (const outcome of outcomes) {
      if ('result' in outcome) continue;
      if (!isItemFailure(outcome.error)) throw outcome.error;
      logSetAside(outcome.error);
    }
  }

  // where it fails, each process goes on with what it knows; a count that was not told is told with the next
  const sharing = createPeriodic({ name: 'sharing rate limits', task: exchange, interval, logger });
  return { start: sharing.start, exchange, stop: sharing.stop };
}
