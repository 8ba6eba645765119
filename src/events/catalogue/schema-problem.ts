import type { ErrorObject } from 'ajv/dist/2020.js';
import { propertyPath } from './json-value.ts';

/** A value that does not fit a schema. */
export interface SchemaProblem {
  /** The path of the value: `data.amount`. */
  readonly path: string;
  /** The expected and the found value; completes a sentence that begins with the path. */
  readonly problem: string;
}

const shownLength = 60;

/** A short text for a value in a message. */
function describeValue(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  const text = JSON.stringify(value);
  return text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;
}

function withArticle(type: string): string {
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}

type Values = Record<string, unknown>;

/** What a keyword requires; completes "must …". Other keywords keep Ajv's message. */
const expectations: Readonly<Record<string, (params: Values, schema: Values) => string | undefined>> = {
  type: ({ type }) => `be ${withArticle(String(type))}`,
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
  const keys = instancePath.split('/').slice(1);
  const names = keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  return names.reduce((path, key) => (/^\d+$/.test(key) ? `${path}[${key}]` : propertyPath(path, key)), root);
}

/** Explains an error of Ajv (made with `verbose`). @param root the name of the checked value */
export function schemaProblem(error: ErrorObject, root: string): SchemaProblem {
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
