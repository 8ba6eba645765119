import { resolveSchema } from '../openapi/resolve-schema.ts';
import { type Spec, type SpecOperation, type SpecSchema, specMethods } from '../openapi/spec.ts';
import { type Operation, type Scope, scopes } from './operation.ts';

/** One operation of openapi.yaml, and what does it. */
export interface Route {
  /** In capitals. */
  readonly method: string;
  /** A template, `/v1/webhooks/{id}`. */
  readonly path: string;
  readonly operation: Operation;
  readonly description: SpecOperation;
  /** What a key must be good for. */
  readonly scope: Scope;
  /** The media types a body may have; empty where the operation takes none. */
  readonly mediaTypes: ReadonlySet<string>;
  readonly bodyRequired: boolean;
  /** Everything that is no body, `$ref`s resolved. */
  readonly parameters: readonly SpecSchema[];
  /** Names of the query parameters. */
  readonly query: readonly string[];
  /** Names of the header parameters, in lower case. */
  readonly headers: readonly string[];
}

/** What does each operation, by the operationId in openapi.yaml. */
export type Operations = Readonly<Record<string, Operation>>;

function operationFor(operations: Operations, id: string): Operation {
  const operation = Object.hasOwn(operations, id) ? operations[id] : undefined;
  if (!operation) throw new Error(`openapi.yaml has the operation ${id}, but nothing does it`);
  return operation;
}

/** An operation that says nothing is open to nobody. */
function scopeOf({ operationId, 'x-scope': scope }: SpecOperation): Scope {
  const known = scopes.find((one) => one === scope);
  if (!known)
    throw new Error(`openapi.yaml: the operation ${operationId} needs an x-scope out of ${scopes.join(', ')}`);
  return known;
}

function namesIn(location: 'query' | 'header', parameters: readonly SpecSchema[]): string[] {
  return parameters.filter((parameter) => parameter.in === location).map(({ name }) => String(name));
}

/** Joins every operation of openapi.yaml with what does it. Throws when one has nothing that does it. */
export function joinRoutes(spec: Spec, operations: Operations): Route[] {
  return Object.entries(spec.paths).flatMap(([path, item]) =>
    specMethods.flatMap((method): Route[] => {
      const description = item[method];
      if (!description) return [];
      const declared = [...(item.parameters ?? []), ...(description.parameters ?? [])];
      const parameters = declared.map((parameter) => resolveSchema(spec, parameter));
      return [
        {
          method: method.toUpperCase(),
          path,
          operation: operationFor(operations, description.operationId),
          description,
          scope: scopeOf(description),
          mediaTypes: new Set(Object.keys(description.requestBody?.content ?? {})),
          bodyRequired: description.requestBody?.required === true,
          parameters,
          query: namesIn('query', parameters),
          headers: namesIn('header', parameters).map((name) => name.toLowerCase()),
        },
      ];
    }),
  );
}

/** Whether a route writes its answer itself, byte by byte, from what a provider sends. */
export function isRelayed({ operation }: Route): boolean {
  return 'relay' in operation;
}

/** Whether a route changes what an account has set up; what the operator's own services report is no such change. */
export function isWrite(route: Route): boolean {
  return route.method !== 'GET' && !isRelayed(route) && route.scope !== 'events:publish';
}

/** Whether a route reads what is stored, or what upstreams have. */
export function isRead(route: Route): boolean {
  return route.method === 'GET';
}

/** Whether a route is one of models, which are called and listed without the database. */
export function isOfModels({ operation, scope }: Route): boolean {
  return scope === 'models' && ('relay' in operation || operation.databaseWait === null);
}
