import type { SpecOperation, SpecSchema } from '../../support/openapi.ts';
import { type Documented, resolved } from '../../support/spec.ts';

export type Path = readonly (string | number)[];

/** Keys that an object literal cannot have. */
const withProto = () => JSON.parse('{"__proto__":{"polluted":true}}');

/** What no string field may hold, and what is answered: any one of the codes. */
export const hostileValues: readonly [what: string, value: unknown, codes: readonly string[]][] = [
  ['{$ne: null}', { $ne: null }, ['invalid_type']],
  ['{$gt: ""}', { $gt: '' }, ['invalid_type']],
  ['{$where: …}', { $where: 'sleep(1000)' }, ['invalid_type']],
  ['{$regex: …}', [{ $regex: '.*' }], ['invalid_type']],
  ['{__proto__: …}', withProto(), ['unknown_parameter']],
  ['{constructor: {prototype: …}}', { constructor: { prototype: { polluted: true } } }, ['unknown_parameter']],
  ['a NUL', 'https://example.com/ab\0cdefgh', ['invalid_value']],
  ['the first half of a surrogate pair', 'https://example.com/\ud83d', ['invalid_encoding']],
  ['the second half of a surrogate pair', 'https://example.com/\ude00', ['invalid_encoding']],
  ['a number', 12_345_678, ['invalid_type']],
  ['null', null, ['invalid_type']],
];

/** What is relayed may answer whatever its provider answers. */
export const isRelayed = ({ operation }: Documented) => operation.responses.default !== undefined;

/** Whether an operation takes a JSON body. */
export const takesJson = ({ operation }: Documented) =>
  operation.requestBody?.content['application/json'] !== undefined;
export function bodySchema({ requestBody }: SpecOperation): SpecSchema | undefined {
  return requestBody && resolved(requestBody.content['application/json']?.schema);
}

/** Where in a body a string is expected. */
export function stringFields(schema: SpecSchema | undefined, value: unknown, path: Path = []): Path[] {
  const node = resolved(schema ?? {});
  if ([node.type].flat().includes('string')) return [path];
  if (Array.isArray(value))
    return value.flatMap((item, i) => stringFields(node.items as SpecSchema, item, [...path, i]));
  if (typeof value !== 'object' || value === null) return [];
  const properties = (node.properties ?? {}) as Record<string, SpecSchema>;
  return Object.entries(value).flatMap(([key, child]) => stringFields(properties[key], child, [...path, key]));
}

/** Whether a body must have the field: in one that it may leave out, null is as if it were absent (absent-nulls.test.ts). */
export function isRequired(schema: SpecSchema | undefined, [key, ...rest]: Path): boolean {
  const node = resolved(schema ?? {});
  if (typeof key === 'number') return rest.length === 0 || isRequired(node.items as SpecSchema, rest);
  const { properties = {}, required = [] } = node as { properties?: Record<string, SpecSchema>; required?: string[] };
  if (key === undefined) return true;
  return rest.length === 0 ? required.includes(key) : isRequired(properties[key], rest);
}

/** A copy with another value at the path. */
export function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  const copy = structuredClone(value) as Record<string | number, unknown>;
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

/** The example of a body that has most fields. */
export function exampleBody({ requestBody }: SpecOperation): object {
  const examples = Object.values(requestBody?.content['application/json']?.examples ?? {});
  const fields = (value: unknown) => Object.keys(value as object).length;
  return examples.map(({ value }) => value as object).sort((a, b) => fields(b) - fields(a))[0] ?? {};
}

export const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
