import { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import { OpenApiValidator } from 'express-openapi-validator/dist/openapi.validator.js';
import { referencedSchemas } from '../../openapi/schemas.ts';
import { jsonBodyOf, type Spec, type SpecOperation } from '../../openapi/spec.ts';
import { pathParameter, type Route } from '../router.ts';
import { type Finding, invalidRequest } from './invalid-request.ts';

/** What has been parsed of a request before it is checked against openapi.yaml. */
export interface Parsed {
  readonly params: Readonly<Record<string, string>>;
  /** Only parameters of the operation: the validator turns names with brackets into objects. */
  readonly query: Record<string, unknown>;
  /** Parsed JSON; `undefined` where there is none. */
  readonly body: unknown;
}

/**
 * Checks a request against its operation, and turns the numbers in `query` into numbers.
 * @throws GatewayError `missing_required_parameter`, `unknown_parameter`, `invalid_type` or `invalid_value`, with `param`
 */
type Validate = (
  req: Pick<IncomingMessage, 'method' | 'headers' | 'socket'>,
  route: Route,
  parsed: Parsed,
) => Promise<void>;

/** What a parser and Express add to a request, and the validator reads. */
type ParsedRequest = IncomingMessage & { body?: unknown; readonly openapi?: unknown };

/** The path of a request as the validator finds it. Every byte of a value is encoded: none can be part of another path. */
function filledPath({ path }: Route, params: Readonly<Record<string, string>>): string {
  const encoded = (value: string) => Buffer.from(value).toString('hex').replace(/../g, '%$&');
  return path.replace(pathParameter, (_, name: string) => encoded(params[name] ?? ''));
}

/** The validator would refuse HEAD, and characters in a query that URLs may have. */
function toChecked({ method, description, parameters }: Route): Record<string, SpecOperation> {
  const { requestBody, ...others } = description;
  const json = jsonBodyOf(description);
  const operation = {
    ...others,
    ...(json && { requestBody: { ...requestBody, content: { 'application/json': json } } }),
    parameters: parameters.map((parameter) =>
      parameter.in === 'query' ? { ...parameter, allowReserved: true } : parameter,
    ),
    responses: {},
  } as SpecOperation;
  return method === 'GET' ? { get: operation, head: operation } : { [method.toLowerCase()]: operation };
}

/** The part of openapi.yaml that describes requests; the rest would only cost time and memory. */
function requestSide(spec: Spec, routes: readonly Route[]): object {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) paths[route.path] = { ...paths[route.path], ...toChecked(route) };
  const { requestBodies = {} } = spec.components;
  const schemas = referencedSchemas([paths, requestBodies], spec.components.schemas);
  return { openapi: spec.openapi, info: spec.info, paths, components: { schemas, requestBodies } };
}

/** The document as the validator's own type has it, which knows less than 3.1. */
type ApiDoc = Awaited<Parameters<OpenApiValidator['installMiddleware']>[0]>['apiDoc'];

/** The routes as the validator reads them from a document. The first that fits a path counts: one has more parameters than those before it. */
function validatorRoutes(routes: readonly Route[]) {
  const all = routes.flatMap((route) => {
    const pathParams = [...route.path.matchAll(pathParameter)].map(([, name = '']) => name);
    const expressRoute = route.path.replace(pathParameter, ':$1');
    const methods = Object.keys(toChecked(route)).map((method) => method.toUpperCase());
    return methods.map((method) => ({ basePath: '', openApiRoute: route.path, expressRoute, method, pathParams }));
  });
  return all.sort((a, b) => a.pathParams.length - b.pathParams.length);
}

/**
 * An Express app that only validates, so that neither the host's settings nor those that the validator adds matter to each other.
 *
 * It is made of the class behind the package's `middleware`. That function also reads the document: it loads a parser of references to files,
 * and compiles the schema of all OpenAPI documents, though `validateApiSpec` is off. On busy machines this was
 * 5 to 25 % of the CPU of `createModelGateway` (four medians of three and five interleaved rounds, Node 20 and 24).
 */
function createValidatorApp(spec: Spec, routes: readonly Route[]): express.Express {
  // the validator changes what it gets
  const apiDoc = structuredClone(requestSide(spec, routes)) as ApiDoc;
  const validator = new OpenApiValidator({
    apiSpec: apiDoc,
    useRequestUrl: true,
    validateApiSpec: false,
    validateSecurity: false,
    validateResponses: false,
    fileUploader: false,
    // URLs are checked by the subject that calls them, which says what is wrong
    formats: { uri: { type: 'string', validate: () => true } },
  });
  const read = { apiDoc, basePaths: [''], routes: validatorRoutes(routes), serial: 0 };
  const app = express();
  app.disable('x-powered-by');
  app.enable('case sensitive routing');
  app.use(validator.installMiddleware(Promise.resolve(read)));
  return app;
}

/**
 * Runs a request through an Express app.
 * @throws what the validator finds; Error if no operation has checked the request, which the validator would let pass
 */
function runThrough(app: express.Express, req: ParsedRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    app(req as express.Request, new ServerResponse(req) as express.Response, (error?: unknown) => {
      if (error !== undefined) reject(error);
      else if (req.openapi === undefined) reject(new Error(`no operation has checked ${req.method} ${req.url}`));
      else resolve();
    });
  });
}

/**
 * Makes the function that has express-openapi-validator check the requests of some routes. It compiles what an operation takes at its first
 * request: most processes are asked for few of all operations.
 *
 * Its middleware is mounted in an app of its own, which gets a request of its own, and not the client's: both change what they get, and
 * the middleware cannot do without what Express adds to a request. On the client's request, a client that disconnected at the wrong moment
 * ended a host's process, a host that defines `query` got 500 for every call, and a request of `node:http2` passed unchecked.
 * @param spec as {@link simplifySchemas} leaves it
 */
export function createValidator(spec: Spec, routes: readonly Route[]): Validate {
  const app = createValidatorApp(spec, routes);
  // the request is the validator's own: Express and the validator change what they get, and the host's listeners see the client's
  return async ({ method, headers, socket }, route, { params, query, body }) => {
    const req: ParsedRequest = new IncomingMessage(socket);
    req.method = method;
    req.url = filledPath(route, params);
    // the validator compiles and keeps one schema for every Content-Type it sees, parameters included
    req.headers = { ...headers, 'content-type': 'application/json' };
    req.body = body;
    Object.defineProperty(req, 'query', { value: query, writable: true, configurable: true, enumerable: true });
    try {
      await runThrough(app, req);
    } catch (error) {
      const { status, errors } = error as { readonly status?: number; readonly errors?: readonly Finding[] };
      throw status === 400 && errors && errors.length > 0 ? invalidRequest(spec, route, errors) : error;
    }
  };
}
