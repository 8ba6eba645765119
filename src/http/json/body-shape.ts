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
 * @param names of further properties of a body that a host has described, where a limit can be in a list, too. @default openapi.yaml has described it
 */
export function bodyShape(spec: Spec, schema: SpecSchema, names?: readonly string[]): BodyShape {
  if (!names) return shapeOf(spec, schema, '', false);
  const described = (schema.properties ?? {}) as Readonly<Record<string, SpecSchema>>;
  const further = Object.fromEntries(names.map((name) => [name, {}]));
  return shapeOf(spec, { ...schema, properties: { ...further, ...described } }, '', true);
}

function shapeOf(spec: Spec, schema: SpecSchema, path: string | undefined, isStrict: boolean): BodyShape {
  const alternatives = alternativesOf(spec, schema) as {
    readonly properties?: Readonly<Record<string, SpecSchema>>;
    readonly items?: SpecSchema;
  }[];
  const items = alternatives.map((alternative) => alternative.items).find(Boolean);
  const pathOf = (name: string) => (path ? `${path}.${name}` : path === '' ? name : undefined);
  const described = new Map<string, SpecSchema[]>();
  for (const [name, property] of alternatives.flatMap(({ properties }) => Object.entries(properties ?? {}))) {
    described.set(name, [...(described.get(name) ?? []), property]);
  }
  const shapeOfProperty = (name: string, [first = {}, ...others]: readonly SpecSchema[]) =>
    shapeOf(spec, others.length > 0 ? { anyOf: [first, ...others] } : first, pathOf(name), isStrict);
  return {
    path,
    properties: new Map([...described].map(([name, schemas]) => [name, shapeOfProperty(name, schemas)])),
    folded: new Map([...described.keys()].map((name) => [foldCase(name), name])),
    items: items && shapeOf(spec, items, undefined, isStrict),
    ...(isStrict && { isStrict }),
  };
}
