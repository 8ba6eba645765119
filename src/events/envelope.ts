import { createHash } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import { newId } from '../ids.ts';

/** The envelope, which every delivery of an event carries, and its bytes. */
export interface Envelope {
  readonly id: string;
  readonly type: string;
  readonly created: Date;
  readonly data: unknown;
  /** The envelope as JSON. It is serialised only here: these bytes are stored, signed and sent. */
  readonly body: Buffer;
  /** SHA-256 of type and data, in hexadecimal. */
  readonly contentHash: string;
}

/** The largest envelope: as much as the API accepts, and far below the 16 MB of a MongoDB document. Bytes. */
const bodyLimit = 256 * 1024;

/** JSON with sorted keys, so that equal content gives equal text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/**
 * Makes the envelope of an event whose data has been checked.
 * @throws GatewayError `invalid_event_data` if it is larger than 256 KiB
 */
export function createEnvelope(type: string, data: unknown, now: number): Envelope {
  const id = newId('evt', now);
  const created = new Date(now);
  const body = Buffer.from(JSON.stringify({ id, type, created: created.toISOString(), data }));
  if (body.length > bodyLimit) {
    const message = `data: makes an event of ${body.length} bytes; the maximum is ${bodyLimit}. Send an id by which the receiver can fetch the rest`;
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
