import { durableCollection } from '../collection.ts';
import type { Logger } from '../options.ts';
import type { WebhookRef } from './attempt-ref.ts';
import type { DeliveryModel } from './model.ts';

/** Hears by a change stream of deliveries that any process has stored for whoever claims them. */
export interface Watch {
  start(): void;
  close(): Promise<void>;
}

export interface WatchDeps {
  readonly deliveries: DeliveryModel;
  /** Something of this webhook is due. */
  readonly onDue: (webhook: WebhookRef) => void;
  readonly logger: Logger;
}

/** After an error the driver could not mend. Milliseconds. */
const retryIn = 1_000;
/** How long the server waits for something to tell before it answers that there is nothing: less than a connection may be silent. Milliseconds. */
const quietAnswer = 2_000;
/** The server's answers where there can be no change streams: a standalone mongod, or a user who may not. */
const hopeless: ReadonlySet<unknown> = new Set([40_573, 13]);

/** Only deliveries that nobody has claimed; of them only whose they are. */
const waiting = [
  { $match: { operationType: 'insert', 'fullDocument.lease': null } },
  { $project: { 'fullDocument.webhookId': 1, 'fullDocument.userId': 1 } },
];

interface Stored {
  readonly fullDocument?: WebhookRef;
}

/** Sweeps find all of it too; this finds it sooner. */
export function createWatch({ deliveries, onDue, logger }: WatchDeps): Watch {
  const collection = durableCollection(deliveries);
  let closed = false;
  let close = async () => {};
  let timer: NodeJS.Timeout | undefined;

  function open(): void {
    const stream = collection.watch<never, Stored>(waiting, { maxAwaitTimeMS: quietAnswer });
    close = () => stream.close();
    stream.on('change', ({ fullDocument }: Stored) => {
      if (fullDocument) onDue(fullDocument);
    });
    stream.on('error', (error: Error & { code?: unknown }) => {
      stream.close().catch(() => {});
      if (closed) return;
      if (hopeless.has(error.code)) {
        const reason = 'changeStreams: there are none here; what other processes publish is found by sweeps';
        logger.warn(reason, { reason: String(error) });
        return;
      }
      logger.warn('the change stream broke and is opened again', { reason: String(error) });
      timer = setTimeout(open, retryIn).unref();
    });
  }

  return {
    start: open,
    async close() {
      closed = true;
      clearTimeout(timer);
      await close().catch(() => {});
    },
  };
}
