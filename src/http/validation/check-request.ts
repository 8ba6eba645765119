import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { alternativesOf, resolveSchema, simplifySchemas } from '../../openapi/schemas.ts';
import { jsonBodyOf, type Spec, type SpecOperation, type SpecSchema } from '../../openapi/spec.ts';
import { type CheckForm, createFormCheck } from '../body/form.ts';
import { type BodyShape, bodyShape } from '../json/body-shape.ts';
import { isRelayed, type Route } from '../router.ts';
import { createCompiledCheck } from './compiled-check.ts';
import { invalidRequest } from './invalid-request.ts';
import { createValidator, type Parsed } from './validator.ts';

/** What openapi.yaml says of requests, compiled. */
interface RequestChecks {
  /** What of a relayed JSON body is described, by its operation. */
  readonly shapes: ReadonlyMap<SpecOperation, BodyShape>;
  readonly checkForm: CheckForm;
  /**
   * Checks a request that is no form. Takes the nulls out of its body that mean the same as no field, and turns the numbers in its query
   * into numbers.
   * @throws GatewayError `missing_required_parameter`, `unknown_parameter`, `invalid_type` or `invalid_value`, with `param`
   */
  readonly check: (req: IncomingMessage, route: Route, parsed: Parsed) => void | Promise<void>;
}

/** Whether an operation is called as often as models are, or events are published: those have the compiled check, all others the validator. */
const isFrequent = (route: Route): boolean => isRelayed(route) || route.scope === 'events:publish';

function createRequestChecks(spec: Spec, routes: readonly Route[]): RequestChecks {
  const simple = simplifySchemas(spec);
  // the others take only forms
  const checked = routes.filter(({ mediaTypes }) => mediaTypes.size === 0 || mediaTypes.has('application/json'));
  const shapes = new Map<SpecOperation, BodyShape>();
  for (const { description } of checked.filter(isRelayed)) {
    const schema = jsonBodyOf(description)?.schema;
    if (schema) shapes.set(description, bodyShape(spec, schema));
  }
  const removeAbsentNulls = createRemoveAbsentNulls(spec, checked);
  const findFault = createCompiledCheck(simple, checked.filter(isFrequent));
  const validate = createValidator(
    simple,
    checked.filter((route) => !isFrequent(route)),
  );
  return {
    shapes,
    checkForm: createFormCheck(spec, routes),
    check(req, route, { params, query, body }) {
      if (!isFrequent(route)) {
        removeAbsentNulls(route, body);
        return validate(req, route, { params, query, body });
      }
      const request = { headers: req.headers, params, body };
      let fault = findFault(route, request);
      // a valid body has no null that stands for an absent field
      if (fault && removeAbsentNulls(route, body)) fault = findFault(route, request);
      if (fault) throw invalidRequest(simple, route, fault);
    },
  };
}

const compiled = new WeakMap<Spec, Map<string, RequestChecks>>();

/**
 * The checks of some routes of a document. Gateways of a process that have the same document and routes share them: to make them
 * takes 200 to 400 ms of CPU, which counts in a host's tests.
 */
export function requestChecks(spec: Spec, routes: readonly Route[]): RequestChecks {
  const ofSpec = compiled.get(spec) ?? new Map<string, RequestChecks>();
  compiled.set(spec, ofSpec);
  const key = routes.map((route) => `${route.description.operationId} ${isRelayed(route)}`).join();
  const checks = ofSpec.get(key) ?? createRequestChecks(spec, routes);
  ofSpec.set(key, checks);
  return checks;
}

/** Takes the nulls out of a body that mean the same as no field. @returns whether there were any */
type RemoveAbsentNulls = (route: Route, body: unknown) => boolean;

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

/**
 * Makes what takes such nulls out of a value of a schema; `undefined` where it can have none.
 * @param known what was made before: a schema may have itself in it
 */
function nullRemover(
  spec: Spec,
  given: SpecSchema,
  known = new Map<SpecSchema, (value: unknown) => boolean>(),
): ((value: unknown) => boolean) | undefined {
  const schema = resolveSchema(spec, given);
  const before = known.get(schema);
  if (before) return before;
  /** The fields that can be left out and do not take null. */
  const optional: string[] = [];
  const inFields = new Map<string, (value: unknown) => boolean>();
  const remove = (value: unknown): boolean => {
    if (typeof value !== 'object' || value === null) return false;
    if (Array.isArray(value)) return inItems ? value.map(inItems).includes(true) : false;
    const fields = value as Record<string, unknown>;
    const absent = optional.filter((name) => fields[name] === null);
    for (const name of absent) delete fields[name];
    const removed = [...inFields].map(([name, removeWithin]) => removeWithin(fields[name]));
    return absent.length > 0 || removed.includes(true);
  };
  known.set(schema, remove);
  const alternatives = alternativesOf(spec, schema);
  const objects = alternatives.filter(({ properties }) => properties !== undefined) as unknown as ObjectSchema[];
  const isRequired = (name: string) => objects.every(({ required }) => required?.includes(name));
  for (const [name, field] of objects.flatMap(({ properties }) => Object.entries(properties))) {
    if (!isRequired(name) && !takesNull(spec, field)) optional.push(name);
    const removeWithin = nullRemover(spec, field, known);
    if (removeWithin) inFields.set(name, removeWithin);
  }
  const itemSchema = alternatives.map(({ items }) => items as SpecSchema | undefined).find(Boolean);
  const inItems = itemSchema && nullRemover(spec, itemSchema, known);
  return optional.length > 0 || inFields.size > 0 || inItems ? remove : undefined;
}

/**
 * Makes the function that takes null in an optional field as if the field were absent, as OpenAI's API does: clients in
 * typed languages write every field. A null that openapi.yaml gives a meaning stays, and so does one in a required field.
 */
export function createRemoveAbsentNulls(spec: Spec, routes: readonly Route[]): RemoveAbsentNulls {
  const removers = new Map(
    routes.map(({ description }) => {
      const schema = jsonBodyOf(description)?.schema;
      return [description, schema && nullRemover(spec, schema)];
    }),
  );
  return ({ description }, body) => removers.get(description)?.(body) ?? false;
}

/** Half of a UTF-16 pair: it has no UTF-8 form, so it would be stored as another character. */
const loneSurrogate = /\p{Surrogate}/u;

/** Keys with a meaning of their own in JavaScript objects; no operation has them. */
const reservedKeys: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

function checkText(text: string, path: string): void {
  const param = path === '' ? {} : { param: path };
  const field = path === '' ? 'The body' : `${path}:`;
  if (text.includes('\0')) throw new GatewayError('invalid_value', `${field} must not have a NUL character`, param);
  if (loneSurrogate.test(text)) {
    throw new GatewayError('invalid_encoding', `${field} has half a surrogate pair, which is no character`, param);
  }
}

function checkValue(value: unknown, path: string): void {
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    value.forEach((item, i) => {
      checkValue(item, `${path}[${i}]`);
    });
    return;
  }
  for (const [key, child] of Object.entries(value)) {
    const childPath = path === '' ? key : `${path}.${key}`;
    if (reservedKeys.has(key)) {
      throw new GatewayError('unknown_parameter', `${childPath}: is not a parameter of this operation`, {
        param: childPath,
      });
    }
    checkText(key, path);
    checkValue(child, childPath);
  }
}

/**
 * Refuses what cannot be stored, or would be read back differently. Relayed bodies are not stored and need no such check.
 * @param value what JSON has parsed to, nested 100 levels at most; `undefined` where there is none
 * @throws GatewayError naming the field: `unknown_parameter` for `__proto__` and its like, `invalid_value` for a NUL,
 * `invalid_encoding` for half a surrogate pair
 */
export function checkStorableBody(value: unknown): void {
  checkValue(value, '');
}
