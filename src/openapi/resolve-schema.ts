import type { Spec, SpecSchema } from './spec.ts';

type Named = Readonly<Record<string, SpecSchema>>;

/** Follows a `$ref` such as `#/components/schemas/Error`; returns any other schema as it is. */
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

/** Picks those of the named schemas that a part of the document refers to, directly or through another schema. */
export function referencedSchemas<Schema>(
  part: unknown,
  schemas: Readonly<Record<string, Schema>>,
  found: Record<string, Schema> = {},
): Readonly<Record<string, Schema>> {
  for (const [, name = ''] of JSON.stringify(part).matchAll(schemaReference)) {
    const schema = schemas[name];
    if (schema === undefined || Object.hasOwn(found, name)) continue;
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
