import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Spec, SpecOperation, SpecSchema } from '../../openapi/spec.ts';
import { type EndpointOptions, operationIdOf } from '../../options/endpoints.ts';
import { namesIn, refuseOption } from '../../options/kinds.ts';
import { patternOf } from '../router.ts';

/** The paths of the document itself, which it does not describe. */
const documents = ['/v1/openapi.json', '/v1/openapi.yaml'];

/** @throws GatewayError `invalid_options` */
function checkPath({ paths }: Spec, param: string, endpoint: EndpointOptions): void {
  const served = [...Object.keys(paths), ...documents].find((path) => patternOf(path).test(endpoint.path));
  if (served !== undefined) refuseOption(param, `must be a path that is not served already; there is ${served}`);
  const id = operationIdOf(endpoint);
  const same = Object.keys(paths).find((path) => paths[path]?.post?.operationId === id);
  if (same !== undefined)
    refuseOption(param, `must differ from ${same} in its letters and digits, not only in what is between them`);
}

/** @throws GatewayError `invalid_options` */
function checkSchema(param: string, schema: SpecSchema): void {
  const ajv = new Ajv2020({ strict: false, logger: false });
  addFormats.default(ajv);
  try {
    // at the place that it has where requests are checked
    ajv.compile({ properties: { body: schema } });
  } catch (error) {
    const message = (error as Error).message.replaceAll('data/properties/body', 'schema');
    refuseOption(param, `is not a valid JSON schema: ${message}`);
  }
}

/** What the name of a model is, whatever else its schema says of it. */
const modelName = { type: 'string', minLength: 1, maxLength: 256 };

/**
 * A schema that has a name of a model where it is read from: a value of another type would be routed like none.
 * @throws GatewayError `invalid_options` where the schema asks for another type there, or on the way
 */
function withModel(param: string, schema: SpecSchema, [name = '', ...rest]: readonly string[]): SpecSchema {
  const properties = (schema.properties ?? {}) as Readonly<Record<string, SpecSchema>>;
  const given: SpecSchema = { ...(Object.hasOwn(properties, name) && properties[name]) };
  const type = rest.length > 0 ? 'object' : modelName.type;
  if (given.type !== undefined && ![given.type].flat().includes(type))
    refuseOption(param, `leads to ${name}, which schema does not describe as type: '${type}'`);
  const property = rest.length > 0 ? withModel(param, { ...given, type }, rest) : { ...given, ...modelName };
  return { ...schema, properties: { ...properties, [name]: property } };
}

/** An operation that differs from that of `/v1/rerank` in what it takes and answers. */
function operationOf({ paths }: Spec, param: string, endpoint: EndpointOptions): SpecOperation {
  const { path, schema, model = '/model' } = endpoint;
  const like = paths['/v1/rerank']?.post;
  if (!like) throw new Error('openapi.yaml: /v1/rerank, which other endpoints are described by, is missing');
  const { requestBody: _, description: __, ...common } = like;
  const taken = withModel(param, schema, namesIn(model));
  const content = {
    'application/json': { schema: { type: 'object', additionalProperties: true } },
    'text/event-stream': { schema: { type: 'string' } },
  };
  return {
    ...common,
    operationId: operationIdOf(endpoint),
    summary: `POST ${path}`,
    ...(typeof schema.description === 'string' && { description: schema.description }),
    requestBody: { required: true, content: { 'application/json': { schema: taken } } },
    responses: { ...like.responses, 200: { ...like.responses[200], description: "The upstream's answer.", content } },
  };
}

/**
 * Adds the host's endpoints to the document, so that every part that reads paths from it knows them.
 * @throws GatewayError `invalid_options` for a path that is served already, and for a schema that is not valid
 */
export function addEndpoints(spec: Spec, endpoints: readonly EndpointOptions[]): Spec {
  let paths = spec.paths;
  for (const [i, endpoint] of endpoints.entries()) {
    const known = { ...spec, paths };
    checkPath(known, `endpoints[${i}].path`, endpoint);
    checkSchema(`endpoints[${i}].schema`, endpoint.schema);
    paths = { ...paths, [endpoint.path]: { post: operationOf(known, `endpoints[${i}].model`, endpoint) } };
  }
  return paths === spec.paths ? spec : { ...spec, paths };
}
