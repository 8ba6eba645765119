import type { Spec, SpecSchema } from './spec.ts';

/** The schema that a `$ref` such as `#/components/schemas/Error` stands for; any other schema as it is. */
export function resolved(spec: Spec, schema: SpecSchema | undefined): SpecSchema {
  const pointer = schema?.$ref;
  if (typeof pointer !== 'string') return schema ?? {};
  const target = pointer
    .slice(2)
    .split('/')
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], spec);
  return resolved(spec, target as SpecSchema | undefined);
}

const schemaReference = /"#\/components\/schemas\/(\w+)"/g;

/** Of some named schemas those that a part of the document refers to, and those that they refer to in turn. */
export function referredTo<Schema>(
  part: unknown,
  schemas: Readonly<Record<string, Schema>>,
  found: Record<string, Schema> = {},
): Readonly<Record<string, Schema>> {
  for (const [, name = ''] of JSON.stringify(part).matchAll(schemaReference)) {
    const schema = schemas[name];
    if (schema === undefined || Object.hasOwn(found, name)) continue;
    found[name] = schema;
    referredTo(schema, schemas, found);
  }
  return found;
}

/** The schema of the value at a path inside what another schema describes; empty where nothing is said about it. */
export function schemaAt(spec: Spec, root: SpecSchema | undefined, path: readonly string[]): SpecSchema {
  return path.reduce<SpecSchema>(
    (schema, key) => {
      const properties = schema.properties as Record<string, SpecSchema> | undefined;
      return resolved(spec, properties?.[key] ?? (schema.items as SpecSchema | undefined));
    },
    resolved(spec, root),
  );
}

function range(min: unknown, max: unknown): string {
  if (min !== undefined && max !== undefined) return min === max ? `${min}` : `${min} to ${max}`;
  if (min !== undefined) return `${min} or more`;
  return max === undefined ? '' : `${max} or fewer`;
}

function sized(noun: string, min: unknown, max: unknown, unit: string): string {
  const size = range(min, max);
  return size === '' ? noun : `${noun} of ${size} ${unit}`;
}

function numeric(noun: string, { minimum, maximum }: SpecSchema): string {
  if (minimum !== undefined && maximum !== undefined) return `${noun} from ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `${noun}, ${minimum} or more`;
  return maximum === undefined ? noun : `${noun}, ${maximum} or less`;
}

const nouns: Readonly<Record<string, (schema: SpecSchema) => string>> = {
  string: (schema) => sized('a string', schema.minLength, schema.maxLength, 'characters'),
  array: (schema) => sized('an array', schema.minItems, schema.maxItems, 'items'),
  object: () => 'an object',
  integer: (schema) => numeric('a whole number', schema),
  number: (schema) => numeric('a number', schema),
  boolean: () => 'true or false',
  null: () => 'null',
};

/** What a schema wants, as it ends the sentence "must be …": `a string of 8 to 256 characters`. Empty when it wants nothing in words. */
export function describeSchema(spec: Spec, given: SpecSchema): string {
  const schema = resolved(spec, given);
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const branches = (schema.anyOf ?? schema.oneOf) as SpecSchema[] | undefined;
  if (branches)
    return [...new Set(branches.map((branch) => describeSchema(spec, branch)))].filter(Boolean).join(' or ');
  const types = schema.type === undefined ? [] : [schema.type].flat();
  return types.map((type) => nouns[String(type)]?.(schema) ?? String(type)).join(' or ');
}
