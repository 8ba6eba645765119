import { isAscii, isUtf8 } from 'node:buffer';
import { refuse } from '../../../errors.ts';
import { describeSchema } from '../../../openapi/describe-schema.ts';
import { resolveSchema } from '../../../openapi/resolve-schema.ts';
import type { Spec, SpecSchema } from '../../../openapi/spec.ts';
import type { Route } from '../../route.ts';
import type { Form, FormPart } from './form.ts';

/** Checks a form against its operation. @throws GatewayError `missing_required_parameter`, `invalid_type`, … with `param` */
export type CheckForm = (route: Route, form: Form) => void;

/** A field that openapi.yaml describes. */
interface Property {
  readonly name: string;
  readonly schema: SpecSchema;
  /** A file; anything else is text. */
  readonly binary: boolean;
  /** Whether it may be given several times: `image`, `image[]`. */
  readonly list: boolean;
}

interface FormSchema {
  readonly properties: ReadonlyMap<string, Property>;
  readonly required: readonly string[];
}

function toProperty(spec: Spec, name: string, given: SpecSchema): Property {
  const schema = resolveSchema(spec, given);
  const forms = (schema.oneOf ?? schema.anyOf ?? [schema]) as readonly SpecSchema[];
  return {
    name,
    schema,
    binary: forms.some(({ format, items }) => ((items as SpecSchema | undefined)?.format ?? format) === 'binary'),
    list: forms.some(({ type }) => type === 'array'),
  };
}

function formSchema(spec: Spec, { description }: Route): FormSchema | undefined {
  const bodySchema = description.requestBody?.content['multipart/form-data']?.schema;
  if (!bodySchema) return undefined;
  const { properties, required = [] } = resolveSchema(spec, bodySchema) as {
    properties?: object;
    required?: readonly string[];
  };
  const entries = Object.entries({ ...Object.fromEntries(required.map((name) => [name, {}])), ...properties });
  return { properties: new Map(entries.map(([name, schema]) => [name, toProperty(spec, name, schema)])), required };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return refuse('invalid_value', 'name', 'has a % in the name of a field that encodes no character');
  }
}

/** The field that a part gives; `undefined` for one that openapi.yaml does not know. */
function propertyOf({ name }: FormPart, { properties }: FormSchema): Property | undefined {
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
  if (plain === undefined && (!jsonType.test(type) || schema.type === 'string')) {
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
export function createFormCheck(spec: Spec, routes: readonly Route[]): CheckForm {
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
    const missing = schema.required.find((name) => !seenNames.has(name));
    if (missing === undefined) return;
    const expected = describeSchema(spec, schema.properties.get(missing)?.schema ?? {});
    const kind = schema.properties.get(missing)?.binary ? 'a file' : expected;
    refuse('missing_required_parameter', missing, `is required, and must be ${kind}`);
  };
}
