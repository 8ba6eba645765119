import type { EventDocument, EventModel } from '../../events/model.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { Logger } from '../../options/options.ts';
import type { WebhookRef } from '../attempt/attempt-ref.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';

/** Hears by a change stream of what any process has stored for whoever takes it. */
export interface Watch {
  start(): void;
  close(): Promise<void>;
}

/** A collection of the driver's. */
type Collection = ReturnType<typeof durableCollection>;

export interface WatchDeps<T> {
  readonly collection: Pick<Collection, 'watch'>;
  /** Which new documents: conditions on `fullDocument.…`. */
  readonly which: Readonly<Record<string, unknown>>;
  /** What of them is told. */
  readonly fields: readonly (keyof T & string)[];
  readonly onStored: (document: T) => void;
  readonly logger: Logger;
}

/** After an error the driver could not mend. Milliseconds. */
const retryIn = 1_000;
/** How long the server waits for something to tell before it answers that there is nothing: less than a connection may be silent. Milliseconds. */
const quietAnswer = 2_000;
/** The server's answers where there can be no change streams: a standalone mongod, or a user who may not. */
const hopeless: ReadonlySet<unknown> = new Set([40_573, 13]);

/** Sweeps find all of it too; this finds it sooner. */
export function createWatch<T extends object>(deps: WatchDeps<T>): Watch {
  const { collection, which, fields, onStored, logger } = deps;
  const told = [
    { $match: { operationType: 'insert', ...which } },
    { $project: Object.fromEntries(fields.map((field) => [`fullDocument.${field}`, 1])) },
  ];
  let closed = false;
  let close = async () => {};
  let timer: NodeJS.Timeout | undefined;

  function open(): void {
    const stream = collection.watch<never, { readonly fullDocument?: T }>(told, { maxAwaitTimeMS: quietAnswer });
    close = () => stream.close();
    stream.on('change', ({ fullDocument }: { readonly fullDocument?: T }) => {
      if (fullDocument) onStored(fullDocument);
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

/** What is watched for workers: deliveries that nobody has claimed, and events that nobody holds. */
export function createWatches(deps: {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly onDue: (webhook: WebhookRef) => void;
  readonly onEvent: () => void;
  readonly logger: Logger;
}): Watch[] {
  const { deliveries, events, onDue, onEvent, logger } = deps;
  return [
    createWatch<DeliveryDocument>({
      collection: durableCollection(deliveries),
      which: { 'fullDocument.state': 'pending', 'fullDocument.attempt': 1, 'fullDocument.lease': null },
      fields: ['webhookId', 'userId'],
      onStored: onDue,
      logger,
    }),
    createWatch<EventDocument>({
      collection: durableCollection(events),
      which: { 'fullDocument.fanOut': 'pending', 'fullDocument.fanOutLeases': 0 },
      fields: ['_id'],
      onStored: onEvent,
      logger,
    }),
  ];
}
