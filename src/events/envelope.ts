import { createHash } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import { newId } from '../ids.ts';

/** What every delivery of an event carries (interface.md, Event envelope), and its bytes. */
export interface Envelope {
  readonly id: string;
  readonly type: string;
  readonly created: Date;
  readonly data: unknown;
  /** The envelope as JSON, serialised this once: signed, stored and sent as these bytes. */
  readonly body: Buffer;
  /** SHA-256 of type and data, in hexadecimal. */
  readonly contentHash: string;
}

/** What a receiver may be sent: as much as the API takes in, and far below the 16 MB of a MongoDB document. Bytes. */
const bodyLimit = 256 * 1024;

/** JSON with every object's keys in order: equal content gives equal text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/**
 * Makes the envelope of an event whose data has been checked.
 * @throws GatewayError `invalid_event_data` when it is larger than 256 KiB
 */
export function createEnvelope(type: string, data: unknown, now: number): Envelope {
  const id = newId('evt', now);
  const created = new Date(now);
  const body = Buffer.from(JSON.stringify({ id, type, created: created.toISOString(), data }));
  if (body.length > bodyLimit) {
    const message = `data: makes an event of ${body.length} bytes; the most is ${bodyLimit}. Send an id to fetch the rest by`;
    throw new GatewayError('invalid_event_data', message, { param: 'data' });
  }
  return {
    id,
    type,
    created,
    data,
    body,
    contentHash: createHash('sha256')
      .update(`${type}\n${canonicalJson(data)}`)
      .digest('hex'),
  };
}
