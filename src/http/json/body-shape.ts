import { alternativesOf } from '../../openapi/schemas.ts';
import type { Spec, SpecSchema } from '../../openapi/spec.ts';
import { foldCase } from './tokens.ts';

/** The part of a value that openapi.yaml describes. */
export interface BodyShape {
  /** The path of the value, such as `stream_options.include_usage`; '' for the body itself. `undefined` inside a list. */
  readonly path: string | undefined;
  readonly properties: ReadonlyMap<string, BodyShape>;
  /** The names of the properties, by their case-folded spelling. */
  readonly folded: ReadonlyMap<string, string>;
  readonly items: BodyShape | undefined;
  /** A longer string is kept as `…`. Bytes, with its quotes. @default 64 */
  readonly keptString?: number;
  /** Whether an object inside a list, too, may not have a property twice, or one that differs from a described one only in case. @default false */
  readonly isStrict?: boolean;
}

/**
 * Makes the shape of a body from its schema. Follows `$ref`s, and joins alternatives.
 * @param names of further properties. @default none
 */
export function bodyShape(spec: Spec, schema: SpecSchema, names: readonly string[] = []): BodyShape {
  const described = (schema.properties ?? {}) as Readonly<Record<string, SpecSchema>>;
  const further = Object.fromEntries(names.map((name) => [name, {}]));
  return shapeOf(spec, names.length > 0 ? { ...schema, properties: { ...further, ...described } } : schema, '');
}

function shapeOf(spec: Spec, schema: SpecSchema, path: string | undefined): BodyShape {
  const alternatives = alternativesOf(spec, schema) as {
    readonly properties?: Readonly<Record<string, SpecSchema>>;
    readonly items?: SpecSchema;
  }[];
  const items = alternatives.map((alternative) => alternative.items).find(Boolean);
  const pathOf = (name: string) => (path ? `${path}.${name}` : path === '' ? name : undefined);
  const names = alternatives.flatMap(({ properties }) => Object.entries(properties ?? {}));
  return {
    path,
    properties: new Map(names.map(([name, property]) => [name, shapeOf(spec, property, pathOf(name))])),
    folded: new Map(names.map(([name]) => [foldCase(name), name])),
    items: items && shapeOf(spec, items, undefined),
  };
}
