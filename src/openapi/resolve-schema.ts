import type { Spec, SpecSchema } from './spec.ts';

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

/** Finds the schema of the value at a path inside what `root` describes; empty where the document says nothing about it. */
export function schemaAt(spec: Spec, root: SpecSchema | undefined, path: readonly string[]): SpecSchema {
  return path.reduce<SpecSchema>(
    (schema, key) => {
      const properties = schema.properties as Record<string, SpecSchema> | undefined;
      return resolveSchema(spec, properties?.[key] ?? (schema.items as SpecSchema | undefined));
    },
    resolveSchema(spec, root),
  );
}
