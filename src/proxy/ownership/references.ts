import type { ByteRange, FieldRange } from '../../http/operation.ts';
import { longestValue, shortValue } from '../model-body.ts';
import { storedObjectNotFound } from './not-found.ts';
import type { StoredKind } from './stored-objects.ts';

/** A stored object that a request names, and the field that names it. */
export interface StoredReference {
  readonly kind: StoredKind;
  readonly id: string;
  readonly param: string;
}

type Fields = ReadonlyMap<string, FieldRange>;

/** The id in a field. @throws GatewayError if it is longer than any */
function idAt(
  bytes: Buffer,
  span: ByteRange | undefined,
  kind: StoredKind,
  param: string,
): StoredReference | undefined {
  if (span && span.end - span.start > longestValue) throw storedObjectNotFound({ kind, id: '…', param });
  const id = shortValue(bytes, span);
  return typeof id === 'string' ? { kind, id, param } : undefined;
}

/**
 * The stored objects that a request continues: `previous_response_id`, and `conversation` or its `id`. Pure.
 * @throws GatewayError `response_not_found`, `conversation_not_found` for an id that is longer than any
 */
export function storedReferences(bytes: Buffer, fields: Fields): StoredReference[] {
  const conversation = fields.get('conversation.id') ?? fields.get('conversation');
  const references = [
    idAt(bytes, fields.get('previous_response_id'), 'response', 'previous_response_id'),
    idAt(bytes, conversation, 'conversation', 'conversation'),
  ];
  return references.filter((reference) => reference !== undefined);
}

/** Longer metadata is not read: providers refuse it. Bytes. */
const longestMetadata = 64 * 1024;

/** What a request attaches to the object that it makes, if that is a record of texts. Pure. */
export function metadataOf(bytes: Buffer, fields: Fields): Readonly<Record<string, string>> | undefined {
  const span = fields.get('metadata');
  if (!span || span.end - span.start > longestMetadata) return undefined;
  const value: unknown = JSON.parse(bytes.toString('utf8', span.start, span.end));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const pairs = Object.entries(value).filter(([, text]) => typeof text === 'string');
  return Object.fromEntries(pairs);
}

/** Whether a request asks its upstream to keep the answer. Pure. */
export function asksToStore(bytes: Buffer, fields: Fields, byDefault: boolean): boolean {
  const store = shortValue(bytes, fields.get('store'));
  return byDefault ? store !== false : store === true;
}
