import { isDate } from 'node:util/types';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { GatewayError, refuse } from '../errors.ts';
import { resolveSchema } from '../openapi/schemas.ts';
import type { Spec, SpecOperation, SpecPathItem, SpecSchema } from '../openapi/spec.ts';
import { namesIn } from '../options/kinds.ts';
import type { EventTypeOptions } from '../options/options.ts';

/** The event types and the schemas of their `data`, from the `webhooks` section of openapi.yaml. */
export type Catalogue = ReturnType<typeof createCatalogue>;

/** The public description of an event type. @public */
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
  /** The schema of `data`, with references into openapi.yaml. */
  readonly schema: SpecSchema;
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

/** @throws Error if the type has no schema of `data`, or no example */
function toEntry(spec: Spec, type: string, operation: SpecOperation): CatalogueEntry {
  const { schema: envelope, examples = {} } = operation.requestBody?.content['application/json'] ?? {};
  const { data: schema } = (resolveSchema(spec, envelope).properties ?? {}) as Record<string, SpecSchema>;
  const [{ value = {} } = {}] = Object.values(examples);
  const { data: example } = value as { readonly data?: Record<string, unknown> };
  if (!schema || !example) throw new Error(`openapi.yaml: the event ${type} needs a schema of data and an example`);
  const described = {
    type,
    // pages and terminals show it without formatting it
    description: (operation.description ?? operation.summary ?? '').replaceAll('**', '').trim(),
    schema: inlined(spec, schema) as SpecSchema,
    example,
  };
  return { described, schema };
}

/**
 * Reads the catalogue from openapi.yaml.
 * @throws Error if an event type has no schema of `data`, or no example
 */
function createCatalogue(spec: Spec) {
  const ajv = new Ajv2020({ strict: true, verbose: true });
  addFormats.default(ajv);
  // the target of the document's own $refs
  ajv.addKeyword('components');

  const entries = new Map<string, CatalogueEntry>();
  for (const [type, { post }] of Object.entries(spec.webhooks)) if (post) entries.set(type, toEntry(spec, type, post));
  const types: ReadonlySet<string> = new Set(entries.keys());

  function entryOf(type: string): CatalogueEntry {
    const entry = entries.get(type);
    if (entry) return entry;
    const shownType = String(type).slice(0, 60);
    refuse('unknown_event_type', 'type', `'${shownType}' is not one of ${[...types].join(', ')}`);
  }

  const compiled = new Map<string, ValidateFunction>();

  function compile(type: string): ValidateFunction {
    const { schema } = entryOf(type);
    const matches = compiled.get(type) ?? ajv.compile({ components: spec.components, ...schema });
    compiled.set(type, matches);
    return matches;
  }

  return {
    /** In the order of openapi.yaml. */
    types,
    /**
     * Compiles the schema of a type, which its first event does otherwise: most processes publish few of all types.
     * @throws GatewayError `unknown_event_type` with param `type`
     * @throws Error if the schema is not valid
     */
    compile,
    /**
     * Checks that `data` fits its type, and that JSON keeps every value in it unchanged.
     * @throws GatewayError `unknown_event_type` with param `type`
     * @throws GatewayError `invalid_event_data`; param is the path of the first wrong field, such as `data.amount`
     */
    validate(type: string, data: unknown): void {
      const matches = compile(type);
      let mismatch = jsonProblem(data, 'data');
      if (!mismatch && !matches(data)) {
        const [error] = matches.errors ?? [];
        mismatch = error && schemaProblem(error, 'data');
      }
      if (!mismatch) return;
      throw new GatewayError('invalid_event_data', `${mismatch.path}: ${mismatch.problem}`, { param: mismatch.path });
    },
    /**
     * The `data` of the type's example, a fresh copy at every call.
     * @throws GatewayError `unknown_event_type` with param `type`
     */
    example: (type: string): Record<string, unknown> => structuredClone(entryOf(type).described.example),
    /** All types, in the order of openapi.yaml. */
    list: (): DescribedType[] => [...entries.values()].map(({ described }) => described),
  };
}

/** Calls `make` once for each document: gateways of a process that have the same document share the result. */
function oncePerDocument<T extends object>(make: (spec: Spec) => T): (spec: Spec) => T {
  const results = new WeakMap<Spec, T>();
  return (spec) => {
    const present = results.get(spec) ?? make(spec);
    results.set(spec, present);
    return present;
  };
}

export const catalogueOf = oncePerDocument(createCatalogue);

function toWebhook(type: string, { schema, example, description = '' }: EventTypeOptions): SpecPathItem {
  const envelope = { type: 'object', properties: { data: schema } };
  const examples = { event: { value: { data: structuredClone(example) } } };
  const requestBody = { required: true, content: { 'application/json': { schema: envelope, examples } } };
  return { post: { operationId: `on ${type}`, description, requestBody, responses: {} } };
}

function withTypes(spec: Spec, types: Readonly<Record<string, EventTypeOptions>>): Spec {
  const webhooks = Object.entries(types).map(([type, options]) => [type, toWebhook(type, options)] as const);
  const { KnownEventType, EventTypes } = spec.components.schemas;
  const names = [...((KnownEventType?.enum as string[] | undefined) ?? []), ...Object.keys(types)];
  const subscribable = { ...EventTypes, items: { type: 'string', enum: names } };
  return {
    ...spec,
    webhooks: { ...spec.webhooks, ...Object.fromEntries(webhooks) },
    components: { ...spec.components, schemas: { ...spec.components.schemas, EventTypes: subscribable } },
  };
}

/** The document of every gateway that adds no type. */
const withKnownTypes = oncePerDocument((spec) => withTypes(spec, {}));

/** Compiles the schema and checks the example, for one type alone, so that an error can name it. */
function check(spec: Spec, type: string, options: EventTypeOptions): void {
  const param = `eventTypes['${type}']`;
  const refuse = (at: string, problem: string, cause?: unknown): never => {
    throw new GatewayError('invalid_options', `${at}: ${problem}`, { param: at, cause });
  };
  if (Object.hasOwn(spec.webhooks, type)) refuse(param, 'is already an event type of the gateway');
  let catalogue: Catalogue | undefined;
  try {
    catalogue = createCatalogue({ ...spec, webhooks: { [type]: toWebhook(type, options) } });
    catalogue.compile(type);
  } catch (error) {
    refuse(`${param}.schema`, `is not a valid JSON schema: ${(error as Error).message}`, error);
  }
  try {
    catalogue?.validate(type, options.example);
  } catch (error) {
    refuse(`${param}.example`, `does not fit the schema: ${(error as Error).message}`, error);
  }
}

/**
 * Adds the host's event types to openapi.yaml, so that every part that reads the types from it knows them. A webhook
 * subscribes to any text in `EventTypes` as clients see it; here, to one of the types that there are.
 * @throws GatewayError `invalid_options` for an existing type, an invalid schema, or an example that does not fit
 */
export function addCustomEventTypes(spec: Spec, types: Readonly<Record<string, EventTypeOptions>>): Spec {
  if (Object.keys(types).length === 0) return withKnownTypes(spec);
  for (const [type, options] of Object.entries(types)) check(spec, type, options);
  return withTypes(spec, types);
}

/** The deepest nesting: MongoDB and many receivers' parsers stop at 100 to 200 levels. */
const depthLimit = 100;

/** A value that JSON would lose or change, or that does not fit a schema. */
interface DataProblem {
  /** The path of the value: `data.window.start`, `data.items[2]`. */
  readonly path: string;
  /** What is wrong and what is expected; completes a sentence that begins with the path. */
  readonly problem: string;
}

const identifier = /^[A-Za-z_$][\w$]*$/;

/** The path of a property: `data.amount`, or `data["a b"]` if the name is no identifier. */
function propertyPath(parent: string, key: string): string {
  return identifier.test(key) ? `${parent}.${key}` : `${parent}[${JSON.stringify(key)}]`;
}

function primitiveProblem(value: unknown): string | undefined {
  switch (typeof value) {
    case 'undefined':
      return 'is undefined, which JSON drops; leave the field out or pass a value';
    case 'function':
      return 'is a function, which JSON drops';
    case 'symbol':
      return 'is a symbol, which JSON drops';
    case 'bigint':
      return 'is a bigint, which cannot be sent as JSON: send it as a string';
    case 'number':
      return Number.isFinite(value) ? undefined : `is ${value}, which JSON turns into null`;
    case 'string':
      return value.isWellFormed() ? undefined : 'has half of a surrogate pair, which has no UTF-8 form';
    default:
      return undefined;
  }
}

/** @param within the objects and arrays that contain it */
function objectProblem(value: object, within: ReadonlySet<object>): string | undefined {
  if (within.has(value)) return 'contains itself, which JSON cannot carry';
  if (within.size >= depthLimit) return `is nested more than ${depthLimit} levels deep`;
  if (Array.isArray(value)) return undefined;
  if (isDate(value)) return 'is a Date; pass a string such as date.toISOString()';
  const prototype: unknown = Object.getPrototypeOf(value);
  // Object.prototype of another realm counts, too: it has no prototype either
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain) return `is an instance of ${value.constructor?.name || 'a class'}; pass a plain object`;
  if (Object.getOwnPropertySymbols(value).length > 0) return 'has a symbol as a key, which JSON drops';
  return undefined;
}

function keyProblem(key: string): string | undefined {
  if (key.includes('\0')) return 'has a NUL character in its name';
  return key.isWellFormed() ? undefined : 'has half of a surrogate pair in its name, which has no UTF-8 form';
}

/**
 * The first value that JSON would change; `undefined` if there is none.
 * @param within the objects and arrays that contain it. @default none
 */
function jsonProblem(value: unknown, path: string, within = new Set<object>()): DataProblem | undefined {
  const isObject = typeof value === 'object' && value !== null;
  const problem = isObject ? objectProblem(value, within) : primitiveProblem(value);
  if (problem) return { path, problem };
  if (!isObject) return undefined;

  within.add(value);
  // the keys of an array are its indexes, also those of holes, which are seen as undefined
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    const isIndex = typeof key === 'number';
    const at = isIndex ? `${path}[${key}]` : propertyPath(path, key);
    const problem = isIndex ? undefined : keyProblem(key);
    const nested = problem ? { path: at, problem } : jsonProblem((value as Values)[key], at, within);
    if (nested) return nested;
  }
  within.delete(value);
  return undefined;
}

const shownLength = 60;

/** A short text for a value in a message. */
function describeValue(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  const text = JSON.stringify(value);
  return text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;
}

type Values = Record<string, unknown>;

/** What a keyword requires; completes "must …". Other keywords keep Ajv's message. */
const expectations: Readonly<Record<string, (params: Values, schema: Values) => string | undefined>> = {
  type: ({ type }) => `be ${/^[aeio]/.test(String(type)) ? 'an' : 'a'} ${String(type)}`,
  const: ({ allowedValue }) => `be ${describeValue(allowedValue)}`,
  enum: ({ allowedValues }) => `be one of ${(allowedValues as unknown[]).map(describeValue).join(', ')}`,
  minLength: ({ limit }) => (limit === 1 ? 'not be empty' : `have at least ${String(limit)} characters`),
  minimum: ({ limit }, { maximum }) => `be ${String(limit)}${limit === maximum ? '' : ' or more'}`,
  maximum: ({ limit }, { minimum }) => (limit === minimum ? `be ${String(limit)}` : undefined),
  pattern: ({ pattern }) => `match ${String(pattern)}`,
  format: ({ format }) => `be a ${String(format)}${format === 'date-time' ? ' such as 2026-01-01T00:00:00.000Z' : ''}`,
};

/** The path of the value an error is about: `/items/0/name` under `data` is `data.items[0].name`. */
function pathOf(root: string, instancePath: string): string {
  return namesIn(instancePath).reduce(
    (path, key) => (/^\d+$/.test(key) ? `${path}[${key}]` : propertyPath(path, key)),
    root,
  );
}

/** Explains an error of Ajv (made with `verbose`). @param root the name of the checked value */
function schemaProblem(error: ErrorObject, root: string): DataProblem {
  const path = pathOf(root, error.instancePath);
  const params = error.params as Record<string, unknown>;
  const fields = Object.keys((error.parentSchema?.properties as object | undefined) ?? {}).join(', ');
  if (error.keyword === 'required') {
    const missing = propertyPath(path, String(params.missingProperty));
    return { path: missing, problem: `is missing; ${path} needs ${fields}` };
  }
  if (error.keyword === 'additionalProperties') {
    const extra = propertyPath(path, String(params.additionalProperty));
    return { path: extra, problem: `is not a field; ${path} has ${fields}` };
  }
  const expectation = expectations[error.keyword]?.(params, (error.parentSchema ?? {}) as Values);
  const must = expectation === undefined ? error.message : `must ${expectation}`;
  return { path, problem: `${must}, not ${describeValue(error.data)}` };
}
