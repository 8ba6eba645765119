import { createHash } from 'node:crypto';
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

/** JSON with every object's keys in order: equal content gives equal text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/** Makes the envelope of an event whose data has been checked. */
export function createEnvelope(type: string, data: unknown, now: number): Envelope {
  const id = newId('evt', now);
  const created = new Date(now);
  return {
    id,
    type,
    created,
    data,
    body: Buffer.from(JSON.stringify({ id, type, created: created.toISOString(), data })),
    contentHash: createHash('sha256')
      .update(`${type}\n${canonicalJson(data)}`)
      .digest('hex'),
  };
}
