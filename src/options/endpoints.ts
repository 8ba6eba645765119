import { type Dialect, dialects } from '../errors.ts';
import { type Check, isObject, matching, objectOf, oneOf, refuseOption, wholeNumber } from './kinds.ts';

/** An endpoint of your upstreams that the gateway does not know: POST with a body of JSON, answered by JSON or, for `"stream": true`, by events. */
export interface EndpointOptions {
  /** Its path, `/v1` included: `/v1/ocr`. Upstreams are called at what follows `/v1`, below their `baseUrl`. @when always */
  readonly path: string;
  /**
   * JSON Schema 2020-12 of its body, an object, without `$ref` and `$id`. What it does not describe goes up, too, unless it forbids that. Its
   * `description` is that of the endpoint. @when always
   */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Where the name of the model stands in the body, as a JSON pointer (RFC 6901). @default '/model' @when it stands elsewhere */
  readonly model?: string;
  /** The API that its upstreams speak: calls go to those that have it in `speaks`. @default 'openai' @when it is Anthropic's */
  readonly speaks?: Dialect;
  /**
   * Where the answer says how many units a call has, as a JSON pointer to a number: `'/usage_info/pages_processed'`. A pointer that leads to none counts
   * as `expectedUnits`, and is no error: look at the `units` in usage once. A model that has a price for a `unit` is charged by them, and not by tokens.
   * @default each call has `expectedUnits` @when it is charged by something else than calls or tokens
   */
  readonly units?: string;
  /** The units that are reserved for a call, and counted where its answer does not say how many they are. @default 1 @when calls usually take more */
  readonly expectedUnits?: number;
}

/** What decides how its calls are relayed. */
export type EndpointRow = Omit<EndpointOptions, 'schema'>;

/** Segments that begin with a letter or digit: none is `..`. */
const path = matching(
  /^(?=.{5,200}$)\/v1(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)+$/,
  'a path below /v1 such as /v1/ocr, of letters, digits, ., _, - and /',
);

/** Whether a schema, at any depth, has a keyword. */
function has(keyword: string, value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => has(keyword, item));
  return isObject(value) && (Object.hasOwn(value, keyword) || Object.values(value).some((item) => has(keyword, item)));
}

/** The most items that may be compared each with each: more would keep the process busy for seconds. */
const mostCompared = 500;

/** Whether a schema, at any depth, has lists of any length whose items are compared so: all but texts, numbers and the like. */
function comparesAny(value: unknown): boolean {
  if (!isObject(value)) return Array.isArray(value) && value.some(comparesAny);
  const { uniqueItems, maxItems, items } = value;
  const { type = 'object' } = isObject(items) ? items : {};
  const isBounded = uniqueItems !== true || (typeof maxItems === 'number' && maxItems <= mostCompared);
  const isSlow = !isBounded && [type].flat().some((each) => each === 'object' || each === 'array');
  return isSlow || Object.values(value).some(comparesAny);
}

const pointerTo =
  (example: string): Check =>
  (param, given) => {
    if (typeof given === 'string' && /^(?:\/(?:[^~/]|~[01])+)+$/.test(given)) return;
    refuseOption(param, `must be a JSON pointer such as '${example}'`);
  };

const checkEndpoint = objectOf(
  {
    path: path.check,
    schema(param, schema) {
      if (!isObject(schema) || schema.type !== 'object')
        refuseOption(param, "must be a JSON schema with type: 'object'");
      try {
        JSON.stringify(schema);
      } catch {
        refuseOption(param, 'must be JSON, which holds no bigint and nothing that contains itself');
      }
      const reference = ['$ref', '$dynamicRef'].find((keyword) => has(keyword, schema));
      if (reference) refuseOption(param, `must have no ${reference}: write what it refers to in its place`);
      if (has('$id', schema)) refuseOption(param, 'must have no $id: leave it out');
      const most = `maxItems of ${mostCompared} or fewer`;
      if (comparesAny(schema)) refuseOption(param, `must have ${most} beside uniqueItems where items can be objects`);
    },
    model: pointerTo('/parameters/model'),
    speaks: oneOf(...dialects).check,
    units: pointerTo('/usage_info/pages_processed'),
    expectedUnits: wholeNumber(1, 1_000_000).check,
  } satisfies Record<keyof EndpointOptions, Check>,
  ['path', 'schema'],
);

/**
 * Checks each field of the option `endpoints`. What paths there are already, and whether a schema is valid, `addEndpoints` checks.
 * @throws GatewayError `invalid_options`, naming the endpoint
 */
export const checkEndpoints: Check = (param, endpoints) => {
  if (!Array.isArray(endpoints)) refuseOption(param, "must be a list such as [{ path: '/v1/ocr', schema }]");
  for (const [i, endpoint] of endpoints.entries()) checkEndpoint(`${param}[${i}]`, endpoint);
};

/** The id of its operation: `/v1/images/upscale` is `postImagesUpscale`. */
export function operationIdOf({ path }: Pick<EndpointOptions, 'path'>): string {
  const words = path.slice('/v1/'.length).split(/[^A-Za-z0-9]+/);
  return `post${words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')}`;
}
