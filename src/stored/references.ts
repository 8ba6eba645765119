import { type ErrorCode, GatewayError } from '../errors.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import { outline } from '../http/json/scan.ts';
import { mayName, type NamedText, namedTexts } from '../http/json/search.ts';
import { foldCase } from '../http/json/tokens.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import { mayCall } from '../proxy/admission.ts';
import { longestValue, shortValue } from '../proxy/model-body.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { kinds, longestId, type StoredCall, type StoredKind } from './kinds.ts';
import type { StoredObjects } from './service.ts';
import type { StoredObject } from './stored-object.ts';

/** A stored object that a request names, and the field that names it. */
interface StoredReference {
  readonly kind: StoredKind;
  readonly id: string;
  readonly param: string;
  /** Whether it may go up although nobody is known to have it: clients send back what they were shown before. @default false */
  readonly mayBeUnknown?: boolean;
}

/** Key → the kind that a request names under it. */
const kindOfKey = new Map(
  Object.entries(kinds).flatMap(([kind, { namedBy = [] }]) => namedBy.map((key) => [key, kind as StoredKind])),
);

const namingKeys = [...kindOfKey.keys()];

/** The most stored objects that one request may name beside what it continues: each costs the database a read. */
const mostNamed = 1_000;

/** What a request refers to. */
interface Referred {
  readonly references: readonly StoredReference[];
  /** The field of the body that may have items. @default none */
  readonly itemsIn?: string;
}

/** Stored objects of an account, and the upstreams that keep all of them: one, or all upstreams where nothing is named. */
interface Owned {
  readonly objects: readonly StoredObject[];
  readonly keepers: readonly Upstream[];
}

/**
 * Requires that what a request refers to belongs to its account. An item that comes with its content may have any id that no account
 * has been shown: clients send back what was never stored, too.
 * @throws GatewayError `response_not_found`, `file_not_found` and so on for every kind, also where the upstream
 * that keeps it is no longer configured; `database_unavailable`; what {@link inputItems} throws
 */
export async function requireOwned(
  storedObjects: StoredObjects,
  apiRequest: Body & Pick<ApiRequest, 'principal'>,
  { references, itemsIn }: Referred,
  upstreams: readonly Upstream[],
): Promise<Owned> {
  const { principal } = apiRequest;
  const { userId } = principal;
  let keepers = upstreams;
  const keep = (object: StoredObject | null, reference: StoredReference): StoredObject => {
    // a key that is limited to some models gets at what these have made
    const isAllowed = object !== null && (object.model === null || mayCall(principal, object.model));
    keepers = isAllowed ? keepers.filter(({ name }) => name === object.upstream) : [];
    if (!isAllowed || keepers.length === 0) throw storedObjectNotFound(reference);
    return object;
  };
  const objects: StoredObject[] = [];
  const seen = new Set<string>();
  for (const reference of references) {
    const { id, kind, mayBeUnknown = false } = reference;
    const name = `${kind} ${id} ${mayBeUnknown}`;
    if (seen.has(name)) continue;
    seen.add(name);
    const object = await storedObjects.find({ id, kind, userId });
    if (object === null && mayBeUnknown && !(await storedObjects.isKnown(id))) continue;
    objects.push(keep(object, reference));
  }
  const items = itemsIn === undefined ? [] : await inputItems(apiRequest, itemsIn);
  if (items.length === 0) return { objects, keepers };
  const { own, foreign } = await storedObjects.findItems({ ids: items.map(({ id }) => id), userId });
  for (const { id, param, isReference } of items) {
    const reference = { kind: 'item', id, param } as const;
    if (isReference) keep(own.get(id) ?? (await storedObjects.find({ ...reference, userId })), reference);
    else if (foreign.has(id)) throw storedObjectNotFound(reference);
  }
  return { objects, keepers };
}

/** The realtime call that a request is about. */
export function callReference(id: string): StoredReference {
  return { kind: 'realtime_call', id, param: 'call_id' };
}

/** The same for what does not exist as for what another account has. */
export function storedObjectNotFound({ kind, id, param }: StoredReference): GatewayError {
  const { name, remedy, notFound = `${kind}_not_found` } = kinds[kind];
  return new GatewayError(notFound as ErrorCode, `No ${name} ${id} is in this account; ${remedy}`, { param });
}

type Body = Pick<ApiRequest, 'rawBody' | 'fields'>;

/**
 * The stored objects that a request continues.
 * @throws GatewayError `response_not_found`, `conversation_not_found` for an id that is longer than any
 */
export function storedReferences({ rawBody, fields }: Body): StoredReference[] {
  return Object.entries(kinds).flatMap(([name, { continuedBy }]) => {
    if (!continuedBy) return [];
    const kind = name as StoredKind;
    const { param } = continuedBy;
    const span = continuedBy.fields.map((field) => fields.get(field)).find(Boolean);
    if (span && lengthOf(span) > longestValue) throw storedObjectNotFound({ kind, id: '…', param });
    return referenceIn(rawBody, span, kind, param);
  });
}

/** The object of a kind that a field names. */
function referenceIn(rawBody: Buffer, span: ByteRange | undefined, kind: StoredKind, param: string): StoredReference[] {
  const id = shortValue(rawBody, span);
  return typeof id === 'string' ? [{ kind, id, param }] : [];
}

/** The files that a call names in fields of its own. */
export function fileReferences(
  { namesFiles = [] }: Pick<StoredCall, 'namesFiles'>,
  { rawBody, fields }: Body,
): StoredReference[] {
  return namesFiles.flatMap((param) => referenceIn(rawBody, fields.get(param), 'file', param));
}

/** What a body is searched for. An item that is sent back names a container as a tool does, which asks for more. */
const searched = {
  keys: namingKeys,
  longest: longestId,
  most: mostNamed,
  everywhere: ['container_id', 'previous_message_id'],
};
/** Where an item that is sent back says in which container it was made, and a message which file a tool of the provider's has made. */
const sentBack =
  /^(?:(?:input|items)\[\d+\](?:\.environment)?\.container_id|messages\[\d+\]\.content\[\d+\]\.content\.content\[\d+\]\.file_id)$/;

/** Where a container of Anthropic's API has its skills: those of Anthropic's own have plain names, `pptx`, and customers' begin with `skill_`. */
const skillOfContainer = /(?:^|\.)container\.skills\[\d+\]\.skill_id$/;

/** Of the message that it names, a provider only tells why its cache did not serve the present one. */
const compared = /(?:^|\.)diagnostics\.previous_message_id$/;

/** Whether an id may go up although nobody is known to have what it names. */
function mayBeUnknown({ path, text }: NamedText): boolean {
  return sentBack.test(path) || (skillOfContainer.test(path) && !text.startsWith('skill_'));
}

/**
 * The stored objects that a body names, wherever in it, each once.
 * @throws GatewayError `request_too_large` for too many
 */
export async function namedObjects({
  rawBody,
  form,
  bodyStream,
}: Body & Partial<Pick<ApiRequest, 'form' | 'bodyStream'>>) {
  if (bodyStream || !(form || (await mayName(rawBody)))) return [];
  const texts = form ? namedInForm(form) : await namedTexts(rawBody, searched);
  const named = texts.filter(({ path }) => !compared.test(path));
  if (named.length > mostNamed) {
    throw new GatewayError('request_too_large', `The body names more than ${mostNamed} files and the like`);
  }
  return named.map(
    (each): StoredReference => ({
      kind: kindOfKey.get(each.key) as StoredKind,
      id: each.text,
      param: each.path,
      ...(mayBeUnknown(each) && { mayBeUnknown: true }),
    }),
  );
}

/** The same in the fields of a form: `file_id`, `input_reference[file_id]`. */
function namedInForm({ bytes, parts }: NonNullable<ApiRequest['form']>): NamedText[] {
  return parts.flatMap(({ name, filename, start, end }) => {
    const key = name
      .split(/[[\].]+/)
      .map(foldCase)
      .find((part) => kindOfKey.has(part));
    // some readers take a part with an empty file name for a text
    if (filename || key === undefined) return [];
    return [{ key, text: end - start > longestId ? '…' : bytes.toString('utf8', start, end), path: name }];
  });
}

const lengthOf = ({ start, end }: ByteRange): number => end - start;

/** Longer metadata is not read: providers refuse it. Bytes. */
const longestMetadata = 64 * 1024;

/** What a request attaches to an object, if that is a record of texts. */
export function metadataOf({ rawBody, fields }: Body): Readonly<Record<string, string>> | undefined {
  const span = fields.get('metadata');
  if (!span || lengthOf(span) > longestMetadata) return undefined;
  const value: unknown = JSON.parse(rawBody.toString('utf8', span.start, span.end));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const pairs = Object.entries(value).filter(([, text]) => typeof text === 'string');
  return Object.fromEntries(pairs);
}

/** An item with an id in the input of a call. */
interface InputItem {
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

/**
 * The shape of an object of which some fields are read. In other case, or twice, they are refused: a provider might read another value.
 * @param path of the object; `undefined` inside a list
 * @param keptString the longest text that is read. Bytes
 */
export function shapeOf(path: string | undefined, names: readonly string[], keptString: number): BodyShape {
  const pathOf = (name: string) => (path ? `${path}.${name}` : path === '' ? name : undefined);
  return {
    path,
    properties: new Map(names.map((name) => [name, shapeOf(pathOf(name), [], keptString)])),
    folded: new Map(names.map((name) => [name, name])),
    items: undefined,
    keptString,
  };
}

// each character of an id may be written as \u0000
const item: BodyShape = { ...shapeOf(undefined, ['id', 'type', 'role'], 6 * longestId + '""'.length), isStrict: true };
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
async function inputItems({ rawBody, fields }: Body, field: string): Promise<InputItem[]> {
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
