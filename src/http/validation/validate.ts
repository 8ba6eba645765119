import type { IncomingHttpHeaders } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { referencedSchemas } from '../../openapi/resolve-schema.ts';
import type { Spec } from '../../openapi/spec.ts';
import type { Route } from '../routes.ts';
import { type Finding, invalidRequest } from './invalid-request.ts';
import { createSteps, type Step } from './openapi-validator.ts';

/** The parts of a request that are checked against openapi.yaml. */
export interface Candidate {
  readonly params: Readonly<Record<string, string>>;
  /** Only parameters of the operation: the validator turns names with brackets into objects. */
  readonly query: Record<string, unknown>;
  readonly headers: IncomingHttpHeaders;
  /** Parsed JSON; `undefined` where there is none. */
  readonly body: unknown;
}

/**
 * Checks a request against its operation, and turns the numbers in `query` into numbers.
 * @throws GatewayError `missing_required_parameter`, `unknown_parameter`, `invalid_type` or `invalid_value`, with `param`
 */
export type Validate = (route: Route, candidate: Candidate) => Promise<void>;

const parameter = /\{(\w+)\}/g;

/** What the validator calls on its app. Case and trailing slash are handled before. */
const app = Object.freeze({ enabled: () => false, param() {} });

/** The request that the validator sees, and the route that it stores there. */
type Checked = Record<string, unknown> & { openapi?: object };

/**
 * A request of our own making, so that the host's stays as it is. The validator compiles and keeps one schema for every
 * Content-Type it sees, parameters included, so it sees one. The path is made again with its slashes encoded,
 * and the query is left out of it, for the validator refuses characters there that URLs may have.
 */
function toRequest({ method, path, headers: names }: Route, { params, query, headers, body }: Candidate): Checked {
  const url = path.replace(parameter, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const shown: Record<string, unknown> = { 'content-type': 'application/json' };
  for (const name of names) if (headers[name] !== undefined) shown[name] = headers[name];
  return { app, method, url, originalUrl: url, path: url, baseUrl: '', headers: shown, params: {}, query, body };
}

function run(steps: readonly Step[], req: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const step = (i: number, error?: unknown): void => {
      const current = steps[i];
      if (error !== undefined) reject(error);
      else if (!current) resolve();
      else current(req, {}, (thrown) => step(i + 1, thrown));
    };
    step(0);
  });
}

function findingsOf(error: unknown): readonly Finding[] | undefined {
  const { status, errors } = error as { status?: number; errors?: Finding[] };
  return status === 400 && errors && errors.length > 0 ? errors : undefined;
}

/** Compiles every schema, so that no request waits for it and a broken document fails at start-up. */
async function compile(validate: Validate, routes: readonly Route[]): Promise<void> {
  for (const route of routes) {
    const params = Object.fromEntries([...route.path.matchAll(parameter)].map(([, name]) => [name, '-']));
    try {
      await validate(route, { params, query: {}, headers: {}, body: undefined });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
    }
  }
}

/** The part of openapi.yaml that describes requests; the rest would only cost time and memory. */
function requestSide(spec: Spec, routes: readonly Route[]): object {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { path, method, description } of routes) {
    paths[path] ??= { parameters: spec.paths[path]?.parameters ?? [] };
    paths[path][method.toLowerCase()] = { ...description, responses: {} };
  }
  const { parameters = {}, requestBodies = {} } = spec.components;
  const schemas = referencedSchemas([paths, parameters, requestBodies], spec.components.schemas);
  return { openapi: spec.openapi, info: spec.info, paths, components: { schemas, parameters, requestBodies } };
}

/**
 * Makes a validator for some routes. Every path in it slows each request down, so the relay has its own validator.
 */
export async function createValidator(spec: Spec, routes: readonly Route[]): Promise<Validate> {
  const steps = createSteps(requestSide(spec, routes));
  // the steps before the last find the route by its URL and note it on the request, which is needed once for each
  const lastStep = steps.slice(-1);
  const noted = new Map<Route, object>();

  const validate: Validate = async (route, candidate) => {
    const req = toRequest(route, candidate);
    const known = noted.get(route);
    if (known) req.openapi = { ...known, pathParams: candidate.params };
    try {
      await run(known ? lastStep : steps, req);
    } catch (error) {
      const findings = findingsOf(error);
      throw findings ? invalidRequest(spec, route, findings) : error;
    } finally {
      if (!known && req.openapi) noted.set(route, req.openapi);
    }
  };
  await compile(validate, routes);
  return validate;
}
