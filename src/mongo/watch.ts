import type { Logger } from '../options/options.ts';
import type { durableCollection } from './collection.ts';

export interface WatchDeps<T> {
  readonly collection: Pick<ReturnType<typeof durableCollection>, 'watch'>;
  /** Conditions on `fullDocument.…` that new documents must meet. */
  readonly which: Readonly<Record<string, unknown>>;
  /** The fields that are reported. */
  readonly fields: readonly (keyof T & string)[];
  readonly onStored: (document: T) => void;
  readonly logger: Pick<Logger, 'warn'>;
}

/** The wait after an error from which the driver did not recover. Milliseconds. */
const retryIn = 1_000;
/** How long the server waits before it answers that there is nothing new: less than a connection may be silent. Milliseconds. */
const quietAnswer = 2_000;
/** The server's error codes if change streams are impossible: on a standalone mongod, or for lack of permission. */
const permanentErrors: ReadonlySet<unknown> = new Set([40_573, 13]);

/** Reports, by a change stream, the documents that any process inserts. Sweeps find the same documents; this finds them sooner. */
export function createWatch<T extends object>(deps: WatchDeps<T>) {
  const { collection, which, fields, onStored, logger } = deps;
  const pipeline = [
    { $match: { operationType: 'insert', ...which } },
    { $project: Object.fromEntries(fields.map((field) => [`fullDocument.${field}`, 1])) },
  ];
  let closed = false;
  let close = async () => {};
  let timer: NodeJS.Timeout | undefined;

  function open(): void {
    const stream = collection.watch<never, { readonly fullDocument?: T }>(pipeline, { maxAwaitTimeMS: quietAnswer });
    close = () => stream.close();
    stream.on('change', ({ fullDocument }: { readonly fullDocument?: T }) => {
      if (fullDocument) onStored(fullDocument);
    });
    stream.on('error', (error: Error & { code?: unknown }) => {
      stream.close().catch(() => {});
      if (closed) return;
      if (permanentErrors.has(error.code)) {
        const reason = 'deliveries.changeStreams: this database offers none; sweeps find what other processes publish';
        logger.warn(reason, { reason: String(error) });
        return;
      }
      logger.warn('the change stream ended with an error and is opened again', { reason: String(error) });
      timer = setTimeout(open, retryIn).unref();
    });
  }

  return {
    start: open,
    async close(): Promise<void> {
      closed = true;
      clearTimeout(timer);
      await close().catch(() => {});
    },
  };
}
