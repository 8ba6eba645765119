import { isAscii, isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError, refuse } from '../../errors.ts';
import { describeSchema, resolveSchema } from '../../openapi/schemas.ts';
import { bodiesOf, type Spec, type SpecOperation, type SpecSchema } from '../../openapi/spec.ts';

/** One part of a form: what its head says (RFC 7578, section 4), and the position of its content in the body. */
interface FormPart {
  readonly name: string;
  /** `undefined` for a field; '' for an empty file input. */
  readonly filename: string | undefined;
  /** The value of Content-Type, in lower case. */
  readonly type: string | undefined;
  readonly start: number;
  readonly end: number;
  /** The position of its Content-Length, which changes with its content. */
  readonly lengthAt: number | undefined;
}

/** A form as it came. Its parts point into `bytes`. */
export interface Form {
  readonly bytes: Buffer;
  readonly parts: readonly FormPart[];
}

/** How many parts a form may have; common form readers take as many. */
const partLimit = 1_000;
/** How long the head of a part may be. Bytes. */
const headLimit = 8 * 1024;

/** How many blank lines may stand before the first boundary and behind the last. */
const blankLineLimit = 100;

/** Bytes that are searched in one turn of the event loop. */
const stride = 4 * 1024 * 1024;

function refuseForm(problem: string): never {
  throw new GatewayError('invalid_form', `The form ${problem}`);
}

const token = String.raw`[\w'+.-]{1,70}`;
const quoted = String.raw`"[\w'()+,./:=?-]{1,70}"`;
const charset = String.raw`(?:;[ \t]*charset=(?:utf-8|"utf-8"))?`;
const formType = new RegExp(`^multipart/form-data${charset};[ \\t]*boundary=(${token}|${quoted})${charset};?$`, 'i');

/** The boundary between the parts (RFC 2046, section 5.1.1). */
function boundaryOf(contentType: string): string {
  const boundary = formType.exec(contentType)?.[1];
  if (boundary !== undefined) return boundary.startsWith('"') ? boundary.slice(1, -1) : boundary;
  const problem = /boundary/i.test(contentType)
    ? 'must be multipart/form-data; boundary=… with one boundary of 1 to 70 letters, digits and marks; only charset=utf-8 may be beside it'
    : 'must name the boundary of the form, multipart/form-data; boundary=…: let your HTTP client set it';
  throw new GatewayError('invalid_form', `content-type: ${problem}`, { param: 'content-type' });
}

/** Whether the bytes have a text at a position. */
function standsAt(bytes: Buffer, at: number, text: string): boolean {
  return bytes.toString('latin1', at, at + text.length) === text;
}

/** The position behind the blank lines that begin at `from`. */
function skipBlankLines(bytes: Buffer, from: number): number {
  let at = from;
  while (at < from + 2 * blankLineLimit && standsAt(bytes, at, '\r\n')) at += 2;
  return at;
}

/** The position of a text at or after `from`; -1 when there is none. */
async function find(bytes: Buffer, text: Buffer, from: number): Promise<number> {
  for (let start = from; start < bytes.length; await nextTurn()) {
    const end = start - (start % stride) + stride;
    const at = bytes.subarray(start, end + text.length - 1).indexOf(text);
    if (at !== -1) return start + at;
    start = end;
  }
  return -1;
}

/**
 * Reads a form (RFC 7578). Accepts only what every reader takes alike or refuses, so that the provider reads the same: lines end in
 * CRLF, nothing but blank lines comes before the first boundary or after the last, and the boundary is nowhere else. Form libraries
 * accept more than that, and do not tell where a part stands in the bytes, which go up unchanged.
 * @throws GatewayError `invalid_form`
 */
export async function readForm(bytes: Buffer, contentType: string): Promise<Form> {
  const boundary = boundaryOf(contentType);
  const pattern = Buffer.from(boundary);
  const parts: FormPart[] = [];
  const first = skipBlankLines(bytes, 0);
  if (!standsAt(bytes, first, `--${boundary}`)) {
    refuseForm('must begin with its boundary, the one that content-type names; only blank lines may come before it');
  }
  let at = first + 2 + boundary.length;
  while (!standsAt(bytes, at, '--')) {
    if (parts.length === partLimit) refuseForm(`has more than ${partLimit} parts`);
    if (!standsAt(bytes, at, '\r\n')) refuseForm('must have CRLF, and nothing else, behind its boundary');
    const headStart = at + 2;
    const headLength = bytes.subarray(headStart, headStart + headLimit).indexOf('\r\n\r\n');
    if (headLength === -1) refuseForm(`has a part whose head has no end, or more than ${headLimit} bytes`);
    const headEnd = headStart + headLength;
    const next = await find(bytes, pattern, headEnd + 4);
    if (next === -1) refuseForm('must end in its boundary and --');
    const end = next - 4;
    if (end < headEnd + 4 || !standsAt(bytes, end, '\r\n--')) {
      refuseForm('must have its boundary only between its parts, in lines of their own; use another boundary');
    }
    parts.push(readPart(bytes, headStart, headEnd, end, parts.length + 1));
    at = next + boundary.length;
  }
  if (skipBlankLines(bytes, at + 2) !== bytes.length) {
    refuseForm('must end with its last boundary; only blank lines may come behind it');
  }
  return { bytes, parts };
}

/** Refuses a part whose head some readers may take in another way. @param problem follows `part 2` */
type RefusePart = (problem: string) => never;

/** Those that mean something, and those of mail that every reader ignores. */
const headerNames: ReadonlySet<string> = new Set([
  'content-disposition',
  'content-type',
  'content-length',
  'content-transfer-encoding',
  'content-id',
  'mime-version',
]);

const line = /^([A-Za-z-]+):[ \t]*([\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)$/;

/** The values of the headers by name, and where they stand in the head. */
function readLines(head: string, refusePart: RefusePart): Map<string, { at: number; value: string }> {
  const headers = new Map<string, { at: number; value: string }>();
  let at = 0;
  for (const text of head.split('\r\n')) {
    const [, given = '', value = ''] = line.exec(text) ?? [];
    const header = given.toLowerCase();
    if (header === '') {
      refusePart(
        'must have each header in one line, as its name, a colon and its value, without tabs or blanks at its end',
      );
    }
    if (!headerNames.has(header))
      refusePart(`has the header ${given}; it may have ${[...headerNames].join(', ')} only`);
    if (headers.has(header)) refusePart(`has the header ${header} twice`);
    headers.set(header, { at: at + text.length - value.length, value });
    at += text.length + 2;
  }
  return headers;
}

const disposition = 'form-data';

/**
 * What each parameter may be, how an error says it, and which words may stand there without quotation marks. Of a name, only what every reader
 * takes alike.
 */
const parameterForms: Readonly<
  Record<string, { readonly fits: (text: string) => boolean; readonly wanted: string; readonly word?: RegExp }>
> = {
  name: {
    fits: (text) => /^[\w$@:%./[\]-]{1,256}$/.test(text),
    wanted: '1 to 256 letters, digits and _$@:%./[]-',
    word: /^[\w$.-]+$/,
  },
  filename: {
    // behind an escaped quotation mark, some readers take what follows a semicolon for the next parameter
    fits: (text) => !(text.includes('\\"') && text.includes(';')),
    wanted: 'a text that has not both \\" and a semicolon',
    word: /^[\w.!#$&+^~-]+$/,
  },
  'filename*': {
    // RFC 8187, section 3.2
    fits: (text) => /^utf-8'[\w-]*'(?:[\w.!#$&+^`|~-]|%[0-9a-f]{2})+$/i.test(text),
    wanted: "utf-8'' and a percent-encoded text",
  },
};

/** The parameters of Content-Disposition by name. */
function readDisposition(value: string, refusePart: RefusePart): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  // a text in quotation marks or a word; where it is empty, nothing may follow (RFC 6266, section 4.1)
  const parameter = /; *(?:([\w*-]+)=(?:"((?:[^"\\]|\\"|\\(?!"))*)"|([^\s";]+))|$)/y;
  const isFormData = value.slice(0, disposition.length).toLowerCase() === disposition;
  parameter.lastIndex = disposition.length;
  while (isFormData && parameter.lastIndex < value.length) {
    const [all, given, quoted, word] = parameter.exec(value) ?? [];
    if (all === undefined) refusePart('has a parameter of Content-Disposition that is not name="value"');
    if (given === undefined) {
      // busboy drops such a part, which would hide a field from some readers
      if (!found.has('filename') && !found.has('filename*')) {
        refusePart('has a semicolon at the end of Content-Disposition, which only a file may have');
      }
      break;
    }
    const key = given.toLowerCase();
    const rule = Object.hasOwn(parameterForms, key) ? parameterForms[key] : undefined;
    if (!rule)
      refusePart(`has the parameter ${given} in Content-Disposition; it may have name, filename and filename* only`);
    if (found.has(key)) refusePart(`has the parameter ${key} twice in Content-Disposition`);
    if (found.size === 0 && key !== 'name') refusePart('must have name as the first parameter of Content-Disposition');
    const text = quoted ?? word ?? '';
    const isWritten = key === 'filename*' ? quoted === undefined : word === undefined || rule.word?.test(word);
    if (!isWritten || !rule.fits(text)) refusePart(`must have as ${key} in Content-Disposition ${rule.wanted}`);
    found.set(key, text);
  }
  if (!found.has('name')) refusePart('must have Content-Disposition: form-data; name="…"');
  return found;
}

/**
 * Reads the part whose head stands up to the empty line at `headEnd`, and its content up to `end`. Accepts only what every reader understands
 * alike.
 * @param number of the part, for errors: 1 is the first
 * @throws GatewayError `invalid_form`
 */
function readPart(bytes: Buffer, headStart: number, headEnd: number, end: number, number: number): FormPart {
  const refusePart: RefusePart = (problem) =>
    refuseForm(`cannot be read alike by every reader: part ${number} ${problem}`);
  const head = bytes.subarray(headStart, headEnd);
  if (!isUtf8(head)) refusePart('must have a head in UTF-8');
  const headers = readLines(head.toString('latin1'), refusePart);
  const parameters = readDisposition(headers.get('content-disposition')?.value ?? '', refusePart);
  const encoding = headers.get('content-transfer-encoding')?.value.toLowerCase() ?? 'binary';
  if (!/^(binary|8bit|7bit)$/.test(encoding)) refusePart('must be sent without a transfer encoding');
  const length = headers.get('content-length');
  if (length && !/^\d{1,10}$/.test(length.value)) refusePart('has a Content-Length that is no number');
  const type = headers.get('content-type')?.value.toLowerCase();
  if (type?.startsWith('multipart/')) refusePart('must not have parts of its own');
  const start = headEnd + 4;
  if (length && Number(length.value) !== end - start) refuseForm(`has a wrong Content-Length in part ${number}`);
  return {
    name: parameters.get('name') ?? '',
    filename: parameters.get('filename') ?? parameters.get('filename*'),
    type,
    start,
    end,
    lengthAt: length && headStart + length.at,
  };
}

/** A route, as openapi.yaml describes it. */
interface DescribedRoute {
  readonly description: SpecOperation;
}

/** Checks a form against its operation. @throws GatewayError `missing_required_parameter`, `invalid_type`, … with `param` */
export type CheckForm = (route: DescribedRoute, form: Form) => void;

/** A field that openapi.yaml describes. */
interface Property {
  readonly name: string;
  readonly schema: SpecSchema;
  /** A file; anything else is text. */
  readonly binary: boolean;
  /** Whether it may be given several times: `image`, `image[]`. */
  readonly list: boolean;
  readonly required: boolean;
}

type FormSchema = ReadonlyMap<string, Property>;

function toProperty(spec: Spec, name: string, given: SpecSchema, required: boolean): Property {
  const schema = resolveSchema(spec, given);
  const forms = (schema.oneOf ?? schema.anyOf ?? [schema]) as readonly SpecSchema[];
  return {
    name,
    schema,
    binary: forms.some(({ format, items }) => ((items as SpecSchema | undefined)?.format ?? format) === 'binary'),
    list: forms.some(({ type }) => type === 'array'),
    required,
  };
}

/** The fields that openapi.yaml describes, those that are required first. */
function formSchema(spec: Spec, { description }: DescribedRoute): FormSchema | undefined {
  const bodySchema = bodiesOf(description)['multipart/form-data']?.schema;
  if (!bodySchema) return undefined;
  const { properties, required = [] } = resolveSchema(spec, bodySchema) as {
    properties?: object;
    required?: readonly string[];
  };
  const entries = Object.entries({ ...Object.fromEntries(required.map((name) => [name, {}])), ...properties });
  return new Map(entries.map(([name, schema]) => [name, toProperty(spec, name, schema, required.includes(name))]));
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return refuse('invalid_value', 'name', 'has a % in the name of a field that encodes no character');
  }
}

/** The field that a part gives; `undefined` for one that openapi.yaml does not know. */
function propertyOf({ name }: FormPart, properties: FormSchema): Property | undefined {
  const exact = properties.get(name);
  if (exact) return exact;
  const plain = decoded(name);
  // some readers take these for the field itself
  const base = (/^[^[.]*/.exec(plain)?.[0] ?? '').toLowerCase();
  const similar = [...properties.values()].find((property) => property.name.toLowerCase() === base);
  if (similar?.list && new RegExp(`^${similar.name}\\[\\d*\\]$`).test(plain)) return similar;
  if (similar) refuse('unknown_parameter', name, `is too much like '${similar.name}': write '${similar.name}'`);
  if (base === '_charset_') refuse('invalid_value', name, 'must be left out; forms are UTF-8');
  return undefined;
}

const jsonType = /^application\/json(?:; ?charset="?utf-8"?)?$/;
const textType = /^text\/plain(?:; ?charset=("?)(?:utf-?8|us-ascii|(iso-8859-1))\1)?$/;

/** The bytes of a text that every reader decodes alike. @throws GatewayError `invalid_type`, `invalid_encoding` */
function contentOf({ name, schema }: Property, { type = 'text/plain', filename, start, end }: FormPart, bytes: Buffer) {
  if (filename !== undefined) refuse('invalid_type', name, 'must be a field of the form, and not a file');
  const [plain, , latin1] = textType.exec(type) ?? [];
  // a text might be quoted in JSON
  const isNamed = plain !== undefined || type === schema.contentMediaType;
  if (!isNamed && (!jsonType.test(type) || schema.type === 'string')) {
    refuse('invalid_type', name, 'must be sent as text/plain, or without a Content-Type');
  }
  const content = bytes.subarray(start, end);
  const byteOrderMark = content[0] === 0xef && content[1] === 0xbb && content[2] === 0xbf;
  if (byteOrderMark || !(latin1 ? isAscii(content) : isUtf8(content))) {
    refuse('invalid_encoding', name, 'must be UTF-8, without a byte order mark');
  }
  return content;
}

/** How values other than texts must be written, so that every reader takes them alike. */
const valueForms: Readonly<Record<string, RegExp>> = {
  integer: /^-?(?:0|[1-9]\d{0,8})$/,
  number: /^-?(?:0|[1-9]\d{0,8})(?:\.\d{1,9})?$/,
  boolean: /^(?:true|false)$/,
};

/** Whether a text has an allowed number of characters, counted as JSON schema does. Does not decode a text that is too long. */
function fits(content: Buffer, { minLength = 0, maxLength }: { minLength?: number; maxLength?: number }): boolean {
  if (maxLength === undefined) return content.length >= minLength;
  if (content.length > 4 * maxLength) return false;
  const { length } = [...content.toString('utf8')];
  return length >= minLength && length <= maxLength;
}

function checkText(spec: Spec, property: Property, part: FormPart, bytes: Buffer): void {
  const { name, schema } = property;
  const content = contentOf(property, part, bytes);
  const pattern = valueForms[String(schema.type)];
  const hasValueForm = pattern === undefined || pattern.test(content.toString('latin1', 0, 32));
  if (hasValueForm && fits(content, schema)) return;
  refuse(hasValueForm ? 'invalid_value' : 'invalid_type', name, `must be ${describeSchema(spec, schema)}`);
}

/**
 * Makes the function that checks forms against openapi.yaml. Unknown fields pass. A known field must be given once, by its exact
 * name, as a text or as a file, so that every other reader finds the same in it.
 */
export function createFormCheck(spec: Spec, routes: readonly DescribedRoute[]): CheckForm {
  const schemas = new Map(routes.map((route) => [route.description, formSchema(spec, route)]));
  return ({ description }, { bytes, parts }) => {
    const schema = schemas.get(description);
    if (!schema) return;
    const seenNames = new Set<string>();
    for (const part of parts) {
      const property = propertyOf(part, schema);
      if (!property) continue;
      const { name, binary, list } = property;
      if (seenNames.has(name) && !list) refuse('duplicate_parameter', name, 'is given twice; give it once');
      if (!binary) checkText(spec, property, part, bytes);
      else if (part.filename === undefined) refuse('invalid_type', name, 'must be a file, which has a filename');
      // an empty file input is sent without a name and without content
      if (part.filename !== '') seenNames.add(name);
    }
    const missing = [...schema.values()].find(({ name, required }) => required && !seenNames.has(name));
    if (!missing) return;
    const expected = missing.binary ? 'a file' : describeSchema(spec, missing.schema);
    refuse('missing_required_parameter', missing.name, `is required, and must be ${expected}`);
  };
}
