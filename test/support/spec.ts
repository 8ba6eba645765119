import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { type SpecMethod, type SpecOperation, type SpecSchema, spec, specMethods } from './openapi.ts';

/** One operation of openapi.yaml and where it stands. */
export interface Documented {
  readonly path: string;
  readonly method: SpecMethod;
  readonly operation: SpecOperation;
}

function operationsIn(section: 'paths' | 'webhooks'): Documented[] {
  return Object.entries(spec[section]).flatMap(([path, item]) =>
    specMethods.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ path, method, operation }] : [];
    }),
  );
}

/** What clients may call. */
export const operations: readonly Documented[] = operationsIn('paths');

/** What receivers are sent. */
export const webhookOperations: readonly Documented[] = operationsIn('webhooks');

/** Whether openapi.yaml has an operation that takes this request, as `GET /v1/models/id`. */
export function isDocumented(request: string): boolean {
  return operations.some(({ method, path }) =>
    new RegExp(`^${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(request),
  );
}

/** Whether openapi.yaml has the path of a request, with whatever method. */
export function hasDocumentedPath(request: string): boolean {
  const [, path] = request.split(' ');
  return ['GET', 'POST'].some((method) => isDocumented(`${method} ${path}`));
}

/** The node itself, or the one its `$ref` leads to. */
export function resolved<T>(node: T): T {
  const { $ref } = (node ?? {}) as { $ref?: unknown };
  if (typeof $ref !== 'string') return node;
  const keys = $ref.split('/').slice(1);
  return resolved(keys.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], spec) as T);
}

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
addFormats.default(ajv);
ajv.addVocabulary(['components', 'example', 'x-extension', 'x-enumDescriptions', 'x-expected', 'x-go-type']);

/** The schemas of openapi.yaml, which those that are checked refer to. */
const document = 'openapi.yaml';
ajv.addSchema({ $id: document, components: spec.components });

const validators = new Map<string, ValidateFunction>();

/** Each schema is compiled once, however many values are held against it. */
function validatorOf(schema: SpecSchema): ValidateFunction {
  const text = JSON.stringify(schema).replaceAll('"$ref":"#/', `"$ref":"${document}#/`);
  const validator = validators.get(text) ?? ajv.compile(JSON.parse(text));
  validators.set(text, validator);
  return validator;
}

/** What a value has that its schema does not allow, as text; empty when it fits. */
export function misfits(schema: SpecSchema, value: unknown): string {
  const validator = validatorOf(schema);
  return validator(value) ? '' : ajv.errorsText(validator.errors);
}
