import { resolveSchema } from './resolve-schema.ts';
import type { Spec, SpecSchema } from './spec.ts';

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
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const branches = (schema.anyOf ?? schema.oneOf) as SpecSchema[] | undefined;
  if (branches)
    return [...new Set(branches.map((branch) => describeSchema(spec, branch)))].filter(Boolean).join(' or ');
  const types = schema.type === undefined ? [] : [schema.type].flat();
  return types.map((type) => nouns[String(type)]?.(schema) ?? String(type)).join(' or ');
}
