import { resolveSchema } from './resolve-schema.ts';
import type { Spec, SpecSchema } from './spec.ts';

type Properties = Readonly<Record<string, SpecSchema>>;

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

/** Whether a schema's alternatives are objects with described fields only, which differ in the fields that go together. */
function isEitherOr(alternatives: readonly SpecSchema[]): boolean {
  return alternatives.length > 0 && alternatives.every((schema) => schema.additionalProperties === false);
}

function flattened(spec: Spec, schema: SpecSchema): SpecSchema {
  const alternatives = ((schema.oneOf ?? []) as SpecSchema[]).map((alternative) => resolveSchema(spec, alternative));
  if (!isEitherOr(alternatives)) return schema;
  const properties: Record<string, SpecSchema> = {};
  for (const alternative of alternatives) {
    for (const [name, property] of Object.entries(alternative.properties as Properties)) {
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
  const simple = Object.entries(schemas).map(
    ([name, schema]) => [name, withoutCount(flattened(spec, schema))] as const,
  );
  return { ...spec, components: { ...spec.components, schemas: Object.fromEntries(simple) } };
}
