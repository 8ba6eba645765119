import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { GatewayError, refuse } from '../../errors.ts';
import type { Spec, SpecOperation, SpecSchema } from '../../openapi/spec.ts';
import { jsonProblem } from './json-value.ts';
import { schemaProblem } from './schema-problem.ts';

/** The event types and the schemas of their `data`, from the `webhooks` section of openapi.yaml. */
export interface Catalogue {
  /** In the order of openapi.yaml. */
  readonly types: ReadonlySet<string>;
  /**
   * Checks that `data` fits its type, and that JSON keeps every value in it unchanged.
   * @throws GatewayError `unknown_event_type` with param `type`
   * @throws GatewayError `invalid_event_data`; param is the path of the first wrong field, such as `data.amount`
   */
  validate(type: string, data: unknown): void;
  /**
   * The `data` of the type's example, a fresh copy at every call.
   * @throws GatewayError `unknown_event_type` with param `type`
   */
  example(type: string): Record<string, unknown>;
  /** All types, in the order of openapi.yaml. */
  list(): DescribedType[];
}

/** The public description of an event type. */
export interface DescribedType {
  readonly type: string;
  readonly description: string;
  /** The JSON schema of `data`, without references to other documents. */
  readonly schema: SpecSchema;
  /** An example of `data`. */
  readonly example: Readonly<Record<string, unknown>>;
}

interface CatalogueEntry {
  readonly described: DescribedType;
  readonly matches: ValidateFunction;
  readonly example: Record<string, unknown>;
}

/** Follows `$ref`s (JSON pointers into openapi.yaml) to the schema itself. */
function resolveSchema(spec: Spec, schema: SpecSchema | undefined): SpecSchema | undefined {
  if (typeof schema?.$ref !== 'string') return schema;
  const keys = schema.$ref.split('/').slice(1);
  const target = keys.reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], spec);
  return resolveSchema(spec, target as SpecSchema | undefined);
}

/** Replaces every `$ref` into openapi.yaml by its target; references within the schema stay. */
function inlined(spec: Spec, node: unknown): unknown {
  if (Array.isArray(node)) return node.map((item) => inlined(spec, item));
  if (typeof node !== 'object' || node === null) return node;
  const { $ref, ...rest } = node as Record<string, unknown>;
  if (typeof $ref === 'string' && $ref.startsWith('#/components/')) {
    return { ...(inlined(spec, resolveSchema(spec, { $ref })) as object), ...(inlined(spec, rest) as object) };
  }
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, inlined(spec, value)]));
}

function dataSchema(spec: Spec, operation: SpecOperation): SpecSchema | undefined {
  const envelope = resolveSchema(spec, operation.requestBody?.content['application/json']?.schema);
  const properties = envelope?.properties as Record<string, SpecSchema> | undefined;
  return properties?.data;
}

function exampleData(operation: SpecOperation): Record<string, unknown> | undefined {
  const [example] = Object.values(operation.requestBody?.content['application/json']?.examples ?? {});
  return (example?.value as { data?: Record<string, unknown> } | undefined)?.data;
}

function problemWith(data: unknown, matches: ValidateFunction): { path: string; problem: string } | undefined {
  const unserialisable = jsonProblem(data, 'data');
  if (unserialisable || matches(data)) return unserialisable;
  const [error] = matches.errors ?? [];
  return error && schemaProblem(error, 'data');
}

/** A description without Markdown's `**`: pages and terminals show it unformatted. */
function plainText(description: string): string {
  return description.replaceAll('**', '').trim();
}

/**
 * Reads the catalogue from openapi.yaml.
 * @throws Error if an event type has no valid schema of `data`, or no example
 */
export function createCatalogue(spec: Spec): Catalogue {
  const ajv = new Ajv2020({ strict: true, verbose: true });
  addFormats.default(ajv);
  // the target of the document's own $refs
  ajv.addKeyword('components');

  function toEntry(type: string, operation: SpecOperation): CatalogueEntry {
    const schema = dataSchema(spec, operation);
    const example = exampleData(operation);
    if (!schema || !example) throw new Error(`openapi.yaml: the event ${type} needs a schema of data and an example`);
    const described = {
      type,
      description: plainText(operation.description ?? operation.summary ?? ''),
      schema: inlined(spec, schema) as SpecSchema,
      example,
    };
    return { matches: ajv.compile({ components: spec.components, ...schema }), example, described };
  }

  const entries = new Map(
    Object.entries(spec.webhooks).flatMap(([type, { post }]) => (post ? [[type, toEntry(type, post)] as const] : [])),
  );
  const types: ReadonlySet<string> = new Set(entries.keys());

  function entryOf(type: string): CatalogueEntry {
    const entry = entries.get(type);
    if (entry) return entry;
    const shownType = String(type).slice(0, 60);
    refuse('unknown_event_type', 'type', `'${shownType}' is not one of ${[...types].join(', ')}`);
  }

  return {
    types,
    validate(type, data) {
      const mismatch = problemWith(data, entryOf(type).matches);
      if (!mismatch) return;
      throw new GatewayError('invalid_event_data', `${mismatch.path}: ${mismatch.problem}`, { param: mismatch.path });
    },
    example(type) {
      return structuredClone(entryOf(type).example);
    },
    list: () => [...entries.values()].map(({ described }) => described),
  };
}

const catalogues = new WeakMap<Spec, Catalogue>();

/** The same, made once for a document: gateways of a process that have the same one share it. */
export function catalogueOf(spec: Spec): Catalogue {
  const catalogue = catalogues.get(spec) ?? createCatalogue(spec);
  catalogues.set(spec, catalogue);
  return catalogue;
}
