import { type ErrorCode, GatewayError } from '../../errors.ts';
import { describeSchema, schemaAt } from '../../openapi/schemas.ts';
import { jsonBodyOf, type Spec, type SpecSchema } from '../../openapi/spec.ts';
import { namesIn } from '../../options/kinds.ts';
import type { Route } from '../router.ts';

/** One error that the validator found. */
export interface Finding {
  /** A JSON pointer that starts with where it looked: `/body/events/0`, `/query/limit`. */
  readonly path: string;
  readonly message: string;
  /** The JSON schema keyword that failed, before a dot: `required.openapi.validation`. */
  readonly errorCode?: string;
}

const codes: Readonly<Record<string, ErrorCode>> = {
  required: 'missing_required_parameter',
  minProperties: 'missing_required_parameter',
  additionalProperties: 'unknown_parameter',
  unevaluatedProperties: 'unknown_parameter',
  type: 'invalid_type',
};

/** The validator gives no keyword for an empty query parameter, and calls the `type` of dates by a name of its own. */
function keywordOf({ errorCode = 'minLength' }: Finding): string {
  const keyword = errorCode.split('.')[0] as string;
  return keyword === 'x-eov-type' ? 'type' : keyword;
}

/**
 * A `oneOf` tells what is wrong by each alternative, then that none fits. Its alternatives differ in type: if the type of the value
 * is that of one, what is wrong by that one remains; if not, that the type is wrong.
 */
function withoutAlternatives(findings: readonly Finding[]): Finding[] {
  const result: Finding[] = [];
  for (const finding of findings) {
    if (keywordOf(finding) !== 'oneOf') {
      result.push(finding);
      continue;
    }
    const start = result.findLastIndex(({ path }) => !`${path}/`.startsWith(`${finding.path}/`)) + 1;
    const ofType = result.splice(start).filter((other) => other.path !== finding.path || keywordOf(other) !== 'type');
    result.push(...(ofType.length > 0 ? ofType : [{ ...finding, errorCode: 'type' }]));
  }
  return result;
}

/** `events/0/name` → `events[0].name` */
function toParam(path: readonly string[]): string {
  return path.map((key, i) => (/^\d+$/.test(key) && i > 0 ? `[${key}]` : `${i > 0 ? '.' : ''}${key}`)).join('');
}

/** Of two equal items the validator names the list, and both items in its message; the error names the later one. */
function pathTo({ path, message }: Finding, keyword: string): string[] {
  const indexes = keyword === 'uniqueItems' ? (message.match(/\d+/g) ?? []) : [];
  const later = indexes.length === 2 ? [String(Math.max(...indexes.map(Number)))] : [];
  return [...namesIn(path), ...later];
}

/** The schema of an operation's body, or of its parameters as one object. */
function schemaOf({ description, parameters }: Route, location: string): SpecSchema | undefined {
  if (location === 'body') return jsonBodyOf(description)?.schema;
  // Node has the names of headers in lower case, and so has the validator
  const nameOf = (name: unknown) => (location === 'headers' ? String(name).toLowerCase() : String(name));
  return { properties: Object.fromEntries(parameters.map(({ name, schema }) => [nameOf(name), schema])) };
}

function sentence(spec: Spec, root: SpecSchema | undefined, path: readonly string[], keyword: string): string {
  const expected = describeSchema(spec, schemaAt(spec, root, path));
  switch (keyword) {
    case 'required':
      return expected === '' ? 'is required' : `is required, and must be ${expected}`;
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return notAParameter(Object.keys(schemaAt(spec, root, path.slice(0, -1)).properties ?? {}));
    case 'minProperties':
      return `must have at least one of ${Object.keys(schemaAt(spec, root, path).properties ?? {}).join(', ')}`;
    case 'uniqueItems':
      return 'is the same as an item before it';
    default:
      return expected === '' ? 'is not what openapi.yaml asks for' : `must be ${expected}`;
  }
}

/** Says that a parameter is not one of those that an operation takes. */
export function notAParameter(known: readonly string[]): string {
  return `is not a parameter of this operation; ${known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`}`;
}

/** Turns what the validator found into one error with our own code and message. */
export function invalidRequest(spec: Spec, route: Route, findings: readonly Finding[]): GatewayError {
  // of several findings about one value, the last one says most: that nothing of `anyOf` fits
  const noneFits = findings.findLast((found) => keywordOf(found) === 'anyOf');
  const finding = noneFits ?? (withoutAlternatives(findings)[0] as Finding);
  const keyword = keywordOf(finding);
  const [location = '', ...path] = pathTo(finding, keyword);
  const code = codes[keyword] ?? 'invalid_value';
  const text = sentence(spec, schemaOf(route, location), path, keyword);
  if (path.length === 0) return new GatewayError(code, `The ${location} ${text}`);
  const param = toParam(path);
  return new GatewayError(code, `${param}: ${text}`, { param });
}
