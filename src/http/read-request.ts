import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { GatewayError, refuse } from '../errors.ts';
import { alternativesOf, resolveSchema, simplifySchemas } from '../openapi/schemas.ts';
import { jsonBodyOf, type Spec, type SpecOperation, type SpecSchema } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { BodyStream } from './body/body-stream.ts';
import { type CheckForm, createFormCheck, readForm } from './body/form.ts';
import { type BodyBounds, type BodyBuffer, type BodyLimits, checkSize, keptBody, readBody } from './body/read-body.ts';
import { type BodyShape, bodyShape } from './json/body-shape.ts';
import { checkTree, outline, parseJson, parseWhole } from './json/scan.ts';
import type { ApiRequest, FieldRange } from './operation.ts';
import { announcedLength, type OpenRequests, searchOf } from './request.ts';
import { isRelayed, type Route, readsOf } from './router.ts';
import { createCompiledCheck } from './validation/compiled-check.ts';
import { invalidRequest, notAParameter } from './validation/invalid-request.ts';
import { createValidator, type Parsed } from './validation/validator.ts';

/** What is known of a request before its body is read. */
type RequestHead = Pick<
  ApiRequest,
  'requestId' | 'dialect' | 'principal' | 'params' | 'client' | 'relayed' | 'headers'
>;

/** Reads, parses and validates the rest of a request. @param buffer for its body, which whoever made it releases */
export type ReadRequest = (
  req: IncomingMessage,
  route: Route,
  head: RequestHead,
  buffer: BodyBuffer,
) => Promise<ApiRequest>;

/** What {@link createRequestReader} needs. */
interface RequestReaderDependencies {
  readonly spec: Spec;
  readonly routes: readonly Route[];
  readonly relayedLimits: BodyLimits;
  readonly otherLimits: BodyLimits;
  /** Of what goes up as it comes; its time is that between two chunks. */
  readonly streamLimits: BodyLimits;
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

/**
 * Makes the function that reads and checks a request. A relayed request may have fields
 * and query parameters that openapi.yaml does not describe, because the provider may know them. Any other request may not.
 */
export function createRequestReader(deps: RequestReaderDependencies): ReadRequest {
  const { openRequests, streamLimits, logger } = deps;
  const { shapes, checkForm, check } = requestChecks(deps.spec, deps.routes);

  let warned = false;
  const onReserialised = (): void => {
    if (warned) return;
    warned = true;
    logger.warn(
      'the host parses bodies before the gateway; express.json({ verify: keepRawBody }) would keep them exact',
    );
  };

  return async function readRequest(req, route, head, buffer) {
    const isRelay = isRelayed(route);
    const { params, headers } = head;
    const limits = isRelay ? deps.relayedLimits : deps.otherLimits;
    const plan = {
      route,
      limits,
      buffer,
      openRequests,
      streamLimits,
      shape: shapes.get(route.description),
      onReserialised,
    };
    const { raw, value, fields = noFields, whole = value, stream } = await takeBody(req, headers, plan);
    const search = searchOf(req.url ?? '');
    const parameters = new URLSearchParams(search);
    // what is relayed goes up as it came: a provider may know parameters that appear twice
    const query = isRelay ? Object.fromEntries(parameters) : queryOf(parameters);
    const isJson = value !== undefined || raw.length === 0;
    const form = isRelay && !isJson && isForm(headers) ? await readForm(raw, headers['content-type'] ?? '') : undefined;

    if (!isRelay) {
      checkStorableBody(value);
      const unknown = Object.keys(query).find((name) => !route.query.includes(name));
      if (unknown !== undefined) refuse('unknown_parameter', unknown, notAParameter(route.query));
    }
    if (form) checkForm(route, form);
    else if (!stream && isJson) await check(req, route, { params, query, body: whole });
    const request = {
      query,
      search,
      body: value,
      rawBody: raw,
      fields,
      form,
      bodyStream: stream,
      // the bytes are free at once, because nothing else here refers to them when it has returned
      releaseBody(): void {
        request.rawBody = noBytes;
        request.form = undefined;
        buffer.release();
      },
      ...head,
    };
    return request;
  };
}

/** Whether a body is a form, and not one text. */
const isForm = (headers: IncomingHttpHeaders): boolean => /^multipart\//i.test(headers['content-type'] ?? '');

const noBytes = Buffer.alloc(0);
const noFields: ApiRequest['fields'] = new Map();

/** The parameters in the query. The host's own `query parser` setting does not matter. @throws GatewayError `duplicate_parameter` */
function queryOf(parameters: URLSearchParams): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  for (const [name, value] of parameters) {
    if (name in query) refuse('duplicate_parameter', name, 'appears twice in the query; give it once');
    query[name] = value;
  }
  return query;
}

/** The body that an operation gets. */
interface RequestBody {
  /** The bytes, decompressed, and of JSON without a byte order mark; empty where there is no body. */
  readonly raw: Buffer;
  /** The parsed JSON; of a relayed body only what openapi.yaml describes. */
  readonly value?: unknown;
  /** All of a body that a host has described. @default `value` */
  readonly whole?: unknown;
  /** Where the described fields of a relayed body stand, by path. */
  readonly fields?: ReadonlyMap<string, FieldRange>;
  /** The body of an operation that takes it as it comes, unless the host has read it. */
  readonly stream?: BodyStream;
}

const noBody: RequestBody = Object.freeze({ raw: noBytes });

/** How the body of an operation is read. */
interface BodyPlan extends BodyBounds {
  readonly route: Route;
  readonly streamLimits: BodyLimits;
  /** Which fields of a relayed body are read. */
  readonly shape: BodyShape | undefined;
  /** Called when the exact bytes are lost, because the host parsed the body without `keepRawBody`. */
  readonly onReserialised: () => void;
}

/**
 * Reads the body of a request, even if the host has read it before, and parses it once.
 * Where an operation takes no body, it is read and dropped under the same limits.
 * @throws GatewayError `missing_required_parameter`, `unsupported_media_type`, `request_too_large`, `request_timeout`,
 * `invalid_encoding`, `invalid_json`, `duplicate_parameter`, `number_not_exact`, `unknown_parameter`, `rate_limit_exceeded`, `overloaded`
 */
async function takeBody(req: IncomingMessage, headers: IncomingHttpHeaders, plan: BodyPlan): Promise<RequestBody> {
  const { route, shape, buffer } = plan;
  const takesBody = route.mediaTypes.size > 0;
  const missing = (): RequestBody => {
    if (route.bodyRequired) throw new GatewayError('missing_required_parameter', 'This request needs a body');
    return noBody;
  };

  if (announcedLength(headers) === 0) return missing();
  if (!takesBody && req.readableDidRead) return noBody;
  const mediaType = takesBody ? bodyMediaType(headers, route.mediaTypes) : '';
  const rawBody = keptBody(req);
  const isRead = rawBody !== undefined || req.readableDidRead;
  if (!isRead && 'streamsUp' in route.operation && route.operation.streamsUp) {
    return { raw: noBytes, stream: new BodyStream(req, headers, plan.streamLimits) };
  }
  const bytes = isRead ? (rawBody ?? serialiseAgain(req, plan)) : await readBody(req, headers, plan);
  if (isRead) buffer.reserve(bytes.length);
  checkSize(bytes.length, plan.limits);
  if (!takesBody) return noBody;
  if (bytes.length === 0) return missing();
  if (mediaType !== 'application/json') return { raw: bytes };
  // which no sender may add and a reader may ignore (RFC 8259, section 8.1); upstreams refuse it
  const hasMark = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  const raw = hasMark ? bytes.subarray(byteOrderMark.length) : bytes;
  if (raw.length === 0) return missing();
  if (!shape) return { raw, value: parseJson(raw) };
  const { value, fields } = await outline(raw, shape);
  return { raw, value, fields, ...(readsOf(route) && { whole: parseWhole(raw) }) };
}

/** Serialises again what the host has parsed; the bytes may differ from those that were sent. */
function serialiseAgain({ body }: IncomingMessage & { readonly body?: unknown }, { onReserialised }: BodyPlan): Buffer {
  if (body === undefined) {
    throw new Error('the host has read the body and left nothing of it: mount the gateway before what reads it');
  }
  onReserialised();
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === 'string') return Buffer.from(body);
  checkTree(body);
  return Buffer.from(JSON.stringify(body));
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** JSON is UTF-8 (RFC 8259, section 8.1), which includes ASCII. */
const jsonCharsets: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii']);

/**
 * The media type of the body, in lower case and without its parameters.
 * @throws GatewayError `unsupported_media_type` when there is none, when it is none of those the operation takes,
 * and for JSON that is not UTF-8
 */
function bodyMediaType(headers: IncomingHttpHeaders, accepted: ReadonlySet<string>): string {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').split(';');
  const mediaType = type.trim().toLowerCase();
  if (!accepted.has(mediaType)) {
    const expected = [...accepted].join(' or ');
    throw new GatewayError('unsupported_media_type', `The body must be sent with Content-Type: ${expected}`);
  }
  const isCharset = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i;
  const charset = parameters.map((parameter) => isCharset.exec(parameter)?.[1]).find((found) => found !== undefined);
  if (mediaType === 'application/json' && charset !== undefined && !jsonCharsets.has(charset.toLowerCase())) {
    throw new GatewayError('unsupported_media_type', 'JSON must be UTF-8; leave out the charset of Content-Type');
  }
  return mediaType;
}

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
  for (const route of checked.filter(isRelayed)) {
    const schema = jsonBodyOf(route.description)?.schema;
    if (schema) shapes.set(route.description, bodyShape(spec, schema, readsOf(route)));
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
function requestChecks(spec: Spec, routes: readonly Route[]): RequestChecks {
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
function createRemoveAbsentNulls(spec: Spec, routes: readonly Route[]): RemoveAbsentNulls {
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
function checkStorableBody(value: unknown): void {
  checkValue(value, '');
}
