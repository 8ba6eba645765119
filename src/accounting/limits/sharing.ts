import { createSetAsideLog, itemFailures, writeIsolated } from '../../mongo/batcher.ts';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { MinuteCounter, MinuteCounters } from './minute-counters.ts';
import type { RateModel } from './model.ts';

/** How long a minute's counters are stored: longer than any process reads them. Milliseconds. */
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

/** Exchanges the counters with the other processes at every interval. */
export interface Sharing {
  /** Does nothing the second time. */
  start(): void;
  /** Exchanges them now: resolves with the others' counts as they were when it was called, or newer. */
  exchange(): Promise<void>;
  stop(): Promise<void>;
}

function idOf({ subject, minute }: MinuteCounter): string {
  return `${minute}:${subject}`;
}

/** Writes and reads only the counters used since the last exchange, in two commands no matter how many there are. */
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
    const documents = await rates.find({ _id: { $in: touched.map(idOf) } }).lean();
    const byId = new Map(documents.map(({ _id, used }) => [_id, used]));
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
    const touched = counters.takeTouched();
    const outcomes = await writeIsolated(touched, {
      async write(part) {
        await exchangePart(part);
        return [];
      },
    });
    for (const [, error] of itemFailures(touched, outcomes)) logSetAside(error);
  }

  // when an exchange fails, each process continues with what it knows; the next exchange includes what this one missed
  const sharing = createPeriodic({ name: 'sharing rate limits', task: exchange, interval, logger });
  return { start: sharing.start, exchange, stop: sharing.stop };
}
