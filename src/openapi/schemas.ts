import type { Spec, SpecSchema } from './spec.ts';

type Named = Readonly<Record<string, SpecSchema>>;

/** Follows a `$ref` such as `#/components/schemas/ErrorResponse`; returns any other schema as it is. */
export function resolveSchema(spec: Spec, schema: SpecSchema | undefined): SpecSchema {
  const pointer = schema?.$ref;
  if (typeof pointer !== 'string') return schema ?? {};
  const target = pointer
    .slice(2)
    .split('/')
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], spec);
  return resolveSchema(spec, target as SpecSchema | undefined);
}

const schemaReference = /"#\/components\/schemas\/(\w+)"/g;

/**
 * Picks those of the named schemas that a part of the document refers to, directly or through another schema.
 * @throws Error if it refers to one that is missing
 */
export function referencedSchemas<Schema>(
  part: unknown,
  schemas: Readonly<Record<string, Schema>>,
  found: Record<string, Schema> = {},
): Readonly<Record<string, Schema>> {
  for (const [, name = ''] of JSON.stringify(part).matchAll(schemaReference)) {
    if (Object.hasOwn(found, name)) continue;
    const schema = schemas[name];
    if (schema === undefined) throw new Error(`openapi.yaml refers to the schema ${name}, which it lacks`);
    found[name] = schema;
    referencedSchemas(schema, schemas, found);
  }
  return found;
}

/** Lists the schema, with the alternatives that it and they offer; `$ref`s are followed. */
export function alternativesOf(spec: Spec, given: SpecSchema | undefined): SpecSchema[] {
  const schema = resolveSchema(spec, given);
  const branches = (schema.oneOf ?? schema.anyOf ?? []) as readonly SpecSchema[];
  return [schema, ...branches.flatMap((branch) => alternativesOf(spec, branch))];
}

/** Finds the schema of the value at a path inside what `root` describes; empty where the document says nothing about it. */
export function schemaAt(spec: Spec, root: SpecSchema | undefined, path: readonly string[]): SpecSchema {
  return path.reduce<SpecSchema>(
    (schema, key) => {
      const alternatives = alternativesOf(spec, schema);
      const property = alternatives.map(({ properties }) => (properties as Named | undefined)?.[key]).find(Boolean);
      const others = alternatives.map(({ items, additionalProperties }) => items ?? additionalProperties);
      const other = others.find((schema) => typeof schema === 'object') as SpecSchema | undefined;
      return resolveSchema(spec, property ?? other);
    },
    resolveSchema(spec, root),
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

/** The values of a type that a schema leaves out. */
function exceptions({ not }: SpecSchema): string {
  const left = (not as SpecSchema | undefined)?.enum;
  return Array.isArray(left) ? `, and not ${left.join(' or ')}` : '';
}

const nouns: Readonly<Record<string, (schema: SpecSchema) => string>> = {
  string: (schema) => sized('a string', schema.minLength, schema.maxLength, 'characters') + exceptions(schema),
  array: (schema) => sized('an array', schema.minItems, schema.maxItems, 'items'),
  object: () => 'an object',
  integer: (schema) => numeric('a whole number', schema),
  number: (schema) => numeric('a number', schema),
  boolean: ({ not }) => ((not as SpecSchema | undefined)?.const === true ? 'false' : 'true or false'),
  null: () => 'null',
};

/** Describes what a schema accepts, as the end of a sentence "must be …": `a string of 8 to 256 characters`. Empty when it accepts anything. */
export function describeSchema(spec: Spec, given: SpecSchema): string {
  const schema = resolveSchema(spec, given);
  // what a pattern asks for, in words
  if (schema['x-expected'] !== undefined) return String(schema['x-expected']);
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const branches = (schema.anyOf ?? schema.oneOf) as SpecSchema[] | undefined;
  if (branches)
    return [...new Set(branches.map((branch) => describeSchema(spec, branch)))].filter(Boolean).join(' or ');
  const types = schema.type === undefined ? [] : [schema.type].flat();
  return types.map((type) => nouns[String(type)]?.(schema) ?? String(type)).join(' or ');
}

function valuesOf({ const: value, enum: values }: SpecSchema): readonly unknown[] | undefined {
  return value === undefined ? (values as unknown[] | undefined) : [value];
}

/** A property as two alternatives have it: any value that one of them lists, or what the first says. */
function either(spec: Spec, given: SpecSchema | undefined, other: SpecSchema): SpecSchema {
  if (given === undefined) return other;
  const lists = [given, other].map((schema) => valuesOf(resolveSchema(spec, schema)));
  if (lists.includes(undefined)) return given;
  return { type: 'string', enum: [...new Set(lists.flat())] };
}

function flattened(spec: Spec, schema: SpecSchema): SpecSchema {
  const alternatives = ((schema.oneOf ?? []) as SpecSchema[]).map((alternative) => resolveSchema(spec, alternative));
  // objects with described fields only, which differ in the fields that go together
  const isEitherOr =
    alternatives.length > 0 && alternatives.every(({ additionalProperties }) => additionalProperties === false);
  if (!isEitherOr) return schema;
  const properties: Record<string, SpecSchema> = {};
  for (const alternative of alternatives) {
    for (const [name, property] of Object.entries(alternative.properties as Named)) {
      properties[name] = either(spec, properties[name], property);
    }
  }
  const [first = [], ...others] = alternatives.map(({ required = [] }) => required as string[]);
  const required = first.filter((name) => others.every((names) => names.includes(name)));
  return { type: 'object', additionalProperties: false, required, properties };
}

/** Too few fields are told before which one is missing, though they say less. */
function withoutCount({ minProperties, ...schema }: SpecSchema): SpecSchema {
  return schema.required !== undefined || minProperties === undefined ? schema : { minProperties, ...schema };
}

/**
 * The document as a validator can word what is wrong: with one object, which has the fields of all, in place of a `oneOf` of
 * objects, and without the number of fields of an object that requires some by name. Of these two, operations say what is wrong.
 */
export function simplifySchemas(spec: Spec): Spec {
  const { schemas } = spec.components;
  const simple = Object.entries(schemas).map(([name, schema]) => [name, withoutCount(flattened(spec, schema))]);
  return { ...spec, components: { ...spec.components, schemas: Object.fromEntries(simple) } };
}
