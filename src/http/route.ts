import { resolveSchema } from '../openapi/schemas.ts';
import { jsonBodyOf, type Spec, type SpecOperation, type SpecSchema, specMethods } from '../openapi/spec.ts';
import type { Operation } from './operation.ts';
import { type Scope, scopes } from './principal.ts';

/** One operation of openapi.yaml, with its handler. */
export interface Route {
  /** In capitals. */
  readonly method: string;
  /** A template, `/v1/webhooks/{id}`. */
  readonly path: string;
  readonly operation: Operation;
  readonly description: SpecOperation;
  /** The scope that a key must have. */
  readonly scope: Scope;
  /** The media types a body may have; empty where the operation takes none. */
  readonly mediaTypes: ReadonlySet<string>;
  readonly bodyRequired: boolean;
  /** Its parameters, with `$ref`s resolved, and without the patterns of ids. */
  readonly parameters: readonly SpecSchema[];
  /** Names of the query parameters. */
  readonly query: readonly string[];
  /** Names of the header parameters, in lower case. */
  readonly headers: readonly string[];
}

/** The handler of each operation, by the operationId in openapi.yaml. */
export type Operations = Readonly<Record<string, Operation>>;

function operationFor(operations: Operations, id: string): Operation {
  const operation = Object.hasOwn(operations, id) ? operations[id] : undefined;
  if (!operation) throw new Error(`openapi.yaml has the operation ${id}, which has no handler`);
  return operation;
}

/** A parameter in the template of a path. */
export const pathParameter = /\{(\w+)\}/g;

/** Every operation must name its scope. */
function scopeOf({ operationId, 'x-scope': scope }: SpecOperation): Scope {
  const knownScope = scopes.find((name) => name === scope);
  if (!knownScope)
    throw new Error(`openapi.yaml: the operation ${operationId} needs an x-scope out of ${scopes.join(', ')}`);
  return knownScope;
}

function namesIn(location: 'query' | 'header', parameters: readonly SpecSchema[]): string[] {
  return parameters.filter((parameter) => parameter.in === location).map(({ name }) => String(name));
}

function mediaTypesOf(description: SpecOperation): ReadonlySet<string> {
  const described = Object.keys(description.requestBody?.content ?? {});
  return new Set(jsonBodyOf(description) ? [...described, 'application/json'] : described);
}

/** What begins the patterns of ids: of the gateway's own, and of those that upstreams give. */
const idPattern = /^\^([a-z]+_|\[A-Za-z0-9_:-\])/;

/** A handler answers for an id that cannot exist as for one that does not exist, or with its own message. */
function withoutIdPattern({ schema, ...parameter }: SpecSchema): SpecSchema {
  const { pattern, ...rest } = schema as SpecSchema;
  return { ...parameter, schema: idPattern.test(String(pattern)) ? rest : schema };
}

/** Joins every operation of openapi.yaml with its handler. @throws Error when one has none */
export function joinRoutes(spec: Spec, operations: Operations): Route[] {
  return Object.entries(spec.paths).flatMap(([path, item]) =>
    specMethods.flatMap((method): Route[] => {
      const description = item[method];
      if (!description) return [];
      const declared = [...(item.parameters ?? []), ...(description.parameters ?? [])];
      const parameters = declared.map((parameter) => withoutIdPattern(resolveSchema(spec, parameter)));
      return [
        {
          method: method.toUpperCase(),
          path,
          operation: operationFor(operations, description.operationId),
          description,
          scope: scopeOf(description),
          mediaTypes: mediaTypesOf(description),
          bodyRequired: description.requestBody?.required === true,
          parameters,
          query: namesIn('query', parameters),
          headers: namesIn('header', parameters).map((name) => name.toLowerCase()),
        },
      ];
    }),
  );
}

/** The paths of the model endpoints, each once. */
export function modelPaths(spec: Spec, operations: Operations): string[] {
  const paths = joinRoutes(spec, operations)
    .filter(isModelRoute)
    .map(({ path }) => path);
  return [...new Set(paths)];
}

/** Whether a route passes a provider's answer on, byte by byte. */
export function isRelayed({ operation }: Route): boolean {
  return 'relay' in operation;
}

/** Whether a route changes something that is stored. Model calls, and what the operator's services publish, do not count. */
export function isWrite(route: Route): boolean {
  return route.method !== 'GET' && !isRelayed(route) && route.scope !== 'events:publish';
}

/** Whether a route reads what is stored, or what upstreams have. */
export function isRead(route: Route): boolean {
  return route.method === 'GET';
}

/** Whether a route calls or lists models, which works without the database. */
export function isModelRoute({ operation, scope }: Route): boolean {
  return scope === 'models' && ('relay' in operation || operation.databaseWait === null);
}
