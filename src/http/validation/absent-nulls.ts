import { alternativesOf, resolveSchema } from '../../openapi/resolve-schema.ts';
import { jsonBodyOf, type Spec, type SpecOperation, type SpecSchema } from '../../openapi/spec.ts';
import type { Route } from '../route.ts';

/** Takes the nulls out of a body that mean the same as no field. @returns whether there were any */
export type RemoveAbsentNulls = (route: Route, body: unknown) => boolean;

/** Where in a value such nulls can be. */
interface NullPlaces {
  /** The fields that can be left out and do not take null. */
  readonly optional: readonly string[];
  /** The fields whose values have such fields. */
  readonly properties: ReadonlyMap<string, NullPlaces>;
  /** The same for the items of an array. */
  readonly items: NullPlaces | undefined;
}

/** What an object schema says of its fields. */
interface ObjectSchema {
  readonly properties: Readonly<Record<string, SpecSchema>>;
  readonly required?: readonly string[];
}

function takesNull(spec: Spec, schema: SpecSchema): boolean {
  return alternativesOf(spec, schema).some(({ type, oneOf, anyOf, enum: values, const: value }) => {
    if (type !== undefined) return [type].flat().includes('null');
    return (oneOf ?? anyOf ?? values ?? value) === undefined;
  });
}

/** @param known the places of the schemas that were met before: a schema may have itself in it */
function nullPlaces(spec: Spec, given: SpecSchema, known = new Map<SpecSchema, NullPlaces>()): NullPlaces | undefined {
  const schema = resolveSchema(spec, given);
  const before = known.get(schema);
  if (before) return before;
  const places = {
    optional: [] as string[],
    properties: new Map<string, NullPlaces>(),
    items: undefined as NullPlaces | undefined,
  };
  known.set(schema, places);
  const alternatives = alternativesOf(spec, schema);
  const objects = alternatives.filter(({ properties }) => properties !== undefined) as unknown as ObjectSchema[];
  const isRequired = (name: string) => objects.every(({ required }) => required?.includes(name));
  for (const [name, field] of objects.flatMap(({ properties }) => Object.entries(properties))) {
    if (!isRequired(name) && !takesNull(spec, field)) places.optional.push(name);
    const within = nullPlaces(spec, field, known);
    if (within) places.properties.set(name, within);
  }
  const itemSchema = alternatives.map(({ items }) => items as SpecSchema | undefined).find(Boolean);
  places.items = itemSchema && nullPlaces(spec, itemSchema, known);
  return places.optional.length > 0 || places.properties.size > 0 || places.items ? places : undefined;
}

function removeNulls(value: unknown, { optional, properties, items }: NullPlaces): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return items ? value.map((item) => removeNulls(item, items)).includes(true) : false;
  const fields = value as Record<string, unknown>;
  const absent = optional.filter((name) => fields[name] === null);
  for (const name of absent) delete fields[name];
  const inFields = [...properties].map(([name, places]) => removeNulls(fields[name], places));
  return absent.length > 0 || inFields.includes(true);
}

/**
 * Makes the function that takes null in an optional field as if the field were absent, as OpenAI's API does: clients in
 * typed languages write every field. A null that openapi.yaml gives a meaning stays, and so does one in a required field.
 */
export function createRemoveAbsentNulls(spec: Spec, routes: readonly Route[]): RemoveAbsentNulls {
  const places = new Map<SpecOperation, NullPlaces>();
  for (const { description } of routes) {
    const schema = jsonBodyOf(description)?.schema;
    const found = schema && nullPlaces(spec, schema);
    if (found) places.set(description, found);
  }
  return ({ description }, body) => {
    const found = places.get(description);
    return found !== undefined && removeNulls(body, found);
  };
}
