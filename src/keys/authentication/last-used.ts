import { writeIsolated } from '../../mongo/batcher.ts';

/** Records when keys were used, in batches, without delaying any request. Each key is recorded at most once a minute. */
export interface LastUsed {
  /** A key was used just now. */
  note(id: string): void;
  /** Writes the uses that wait. */
  close(): Promise<void>;
}

export interface LastUsedOptions {
  /** Writes the current time for these keys. */
  readonly write: (ids: readonly string[]) => Promise<void>;
  readonly onFailure: (error: unknown) => void;
  /** How long uses are gathered before they are written. Milliseconds. @default 1_000 */
  readonly delay?: number;
  /** The least time between two recorded uses of a key. Milliseconds. @default 60_000 */
  readonly interval?: number;
}

/** A use that cannot be written is lost; the next one follows in a minute. */
export function createLastUsed({ write, onFailure, delay = 1_000, interval = 60_000 }: LastUsedOptions): LastUsed {
  const notedAt = new Map<string, number>();
  let waiting: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  function forgetOld(now: number): void {
    for (const [id, at] of notedAt) if (now - at >= interval) notedAt.delete(id);
  }

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const ids = waiting;
    waiting = [];
    forgetOld(performance.now());
    if (ids.length > 0) writing = Promise.all([writing, writeAll(ids)]).then(() => {});
  }

  async function writeAll(ids: readonly string[]): Promise<void> {
    const outcomes = await writeIsolated(ids, {
      async write(part) {
        await write(part);
        return [];
      },
    });
    const failed = outcomes.find((outcome) => 'error' in outcome);
    if (failed) onFailure(failed.error);
  }

  return {
    note(id) {
      const now = performance.now();
      const before = notedAt.get(id);
      if (before !== undefined && now - before < interval) return;
      notedAt.set(id, now);
      waiting.push(id);
      timer ??= setTimeout(flush, delay).unref();
    },
    async close() {
      flush();
      await writing;
    },
  };
}
