import { checkKeys, refuseOption } from '../checks.ts';

/** An event type of the host's own. */
export interface EventTypeOptions {
  /** JSON Schema 2020-12 of the event's `data`, an object; `$ref`s may point into its own `$defs`. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** A `data` that fits the schema. It is documentation, and test events carry it. */
  readonly example: Readonly<Record<string, unknown>>;
  /** When it is sent, in a sentence. @default '' */
  readonly description?: string;
}

const knownOptions = ['schema', 'example', 'description'];
/** Words separated by dots, as the gateway's own types are. */
const typeName = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/;
const typeNameLimit = 100;

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Checks the shape of the option `eventTypes`; the schemas themselves are compiled when the gateway is made.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkEventTypes(types: Readonly<Record<string, EventTypeOptions>>): void {
  if (!isObject(types))
    refuseOption('eventTypes', "must be an object such as { 'order.shipped': { schema, example } }");
  for (const [type, options] of Object.entries(types)) {
    const param = `eventTypes['${type}']`;
    if (!typeName.test(type) || type.length > typeNameLimit) {
      refuseOption(param, `must be called by lower-case words separated by dots, ${typeNameLimit} characters at most`);
    }
    if (!isObject(options)) refuseOption(param, 'must be an object with schema and example');
    checkKeys(param, options, knownOptions);
    const { schema, example, description = '' } = options;
    if (!isObject(schema) || schema.type !== 'object')
      refuseOption(`${param}.schema`, "must be a JSON schema with type: 'object'");
    if (!isObject(example)) refuseOption(`${param}.example`, 'must be an object');
    if (typeof description !== 'string') refuseOption(`${param}.description`, 'must be a string');
  }
}
