import { GatewayError } from '../../errors.ts';
import { outline } from '../../http/json/parse.ts';
import type { BodyShape } from '../../http/json/scan.ts';
import type { ApiRequest } from '../../http/operation.ts';
import { longestId } from './stored-objects.ts';

/** An item with an id in the input of a call. */
export interface InputItem {
  readonly id: string;
  /** Where it stands: `input[3].id`. */
  readonly param: string;
  /** Whether it is nothing but the id of an item that the upstream is to look up. */
  readonly isReference: boolean;
}

/** What is read of an item. */
interface OutlinedItem {
  readonly id?: unknown;
  readonly type?: unknown;
  readonly role?: unknown;
}

const names = ['id', 'type', 'role'];
const text: BodyShape = {
  path: undefined,
  properties: new Map(),
  folded: new Map(),
  items: undefined,
  // each character may be written as \u0000
  keptString: 6 * longestId + '""'.length,
};
const item: BodyShape = {
  ...text,
  properties: new Map(names.map((name) => [name, text])),
  folded: new Map(names.map((name) => [name, name])),
  isStrict: true,
};
/** A list of items, or an item alone, which an upstream may take too. */
const input: BodyShape = { ...item, items: item };

/** The most items with ids in one input: each costs the database an entry of an index. */
const mostIds = 10_000;

const isGiven = (value: unknown): boolean => typeof value === 'string' && value !== '';

/** Whether an item is nothing but an id. Messages need no type, but have a role. */
function isReference({ type, role }: OutlinedItem): boolean {
  return type === 'item_reference' || (!isGiven(type) && !isGiven(role));
}

/**
 * The items with ids in a field of a JSON body: what an upstream has made for some account, or a client has named.
 * @throws GatewayError `duplicate_parameter`, `unknown_parameter` where another reader might find another id; `request_too_large`
 */
export async function inputItems({ rawBody, fields }: ApiRequest, field: string): Promise<InputItem[]> {
  const span = fields.get(field);
  // a text has no items
  if (!span || (rawBody[span.start] !== 0x5b && rawBody[span.start] !== 0x7b)) return [];
  const { value } = await outline(rawBody.subarray(span.start, span.end), input);
  const items: InputItem[] = [];
  (Array.isArray(value) ? value : [value]).forEach((outlined: OutlinedItem | null, index) => {
    if (typeof outlined?.id !== 'string') return;
    const param = Array.isArray(value) ? `${field}[${index}].id` : `${field}.id`;
    items.push({ id: outlined.id, param, isReference: isReference(outlined) });
  });
  if (items.length > mostIds) {
    throw new GatewayError('request_too_large', `${field}: has more than ${mostIds} items with ids`, { param: field });
  }
  return items;
}
