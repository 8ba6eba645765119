import { resolveSchema } from '../../../openapi/resolve-schema.ts';
import type { Spec, SpecSchema } from '../../../openapi/spec.ts';

/** What openapi.yaml describes of a value; of what it does not describe no more than the kind matters. */
export interface BodyShape {
  /** Where the value stands, as in `stream_options.include_usage`; the body itself is ''. `undefined` for what is inside a list. */
  readonly path: string | undefined;
  /** Of an object, by name. */
  readonly properties: ReadonlyMap<string, BodyShape>;
  /** Their names, by how they are spelled where case does not count. */
  readonly folded: ReadonlyMap<string, string>;
  /** Of the items of an array. */
  readonly items: BodyShape | undefined;
}

/**
 * A key as a reader takes it to whom case does not matter, such as Go's encoding/json: in it `ſ` (U+017F) is an s, and the
 * Kelvin sign (U+212A) a k (Unicode's simple case folding).
 */
export function foldCase(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** What the schema of a body describes, `$ref`s followed. */
export function bodyShape(spec: Spec, schema: SpecSchema): BodyShape {
  return shapeOf(spec, schema, '');
}

function shapeOf(spec: Spec, schema: SpecSchema, path: string | undefined): BodyShape {
  const { properties, items } = resolveSchema(spec, schema) as {
    readonly properties?: Readonly<Record<string, SpecSchema>>;
    readonly items?: SpecSchema;
  };
  const pathOf = (name: string) => (path ? `${path}.${name}` : path === '' ? name : undefined);
  const names = Object.entries(properties ?? {});
  return {
    path,
    properties: new Map(names.map(([name, property]) => [name, shapeOf(spec, property, pathOf(name))])),
    folded: new Map(names.map(([name]) => [foldCase(name), name])),
    items: items && shapeOf(spec, items, undefined),
  };
}
