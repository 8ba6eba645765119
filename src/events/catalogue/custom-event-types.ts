import { GatewayError } from '../../errors.ts';
import type { Spec, SpecPathItem } from '../../openapi/spec.ts';
import type { EventTypeOptions } from '../../options/options.ts';
import { createCatalogue } from './catalogue-from-openapi.ts';

function toWebhook(type: string, { schema, example, description = '' }: EventTypeOptions): SpecPathItem {
  const envelope = { type: 'object', properties: { data: schema } };
  const examples = { event: { value: { data: structuredClone(example) } } };
  const requestBody = { required: true, content: { 'application/json': { schema: envelope, examples } } };
  return { post: { operationId: `on ${type}`, description, requestBody, responses: {} } };
}

function withTypes(spec: Spec, types: Readonly<Record<string, EventTypeOptions>>): Spec {
  const webhooks = Object.entries(types).map(([type, options]) => [type, toWebhook(type, options)] as const);
  const { KnownEventType, EventTypes } = spec.components.schemas;
  const names = [...((KnownEventType?.enum as string[] | undefined) ?? []), ...Object.keys(types)];
  const subscribable = { ...EventTypes, items: { type: 'string', enum: names } };
  return {
    ...spec,
    webhooks: { ...spec.webhooks, ...Object.fromEntries(webhooks) },
    components: { ...spec.components, schemas: { ...spec.components.schemas, EventTypes: subscribable } },
  };
}

const knownTypes = new WeakMap<Spec, Spec>();

/** One document for every gateway that adds no type, so that what is compiled from it is compiled once. */
function withKnownTypes(spec: Spec): Spec {
  const document = knownTypes.get(spec) ?? withTypes(spec, {});
  knownTypes.set(spec, document);
  return document;
}

/** Compiles the schema and checks the example, for one type alone, so that an error can name it. */
function check(spec: Spec, type: string, options: EventTypeOptions): void {
  const param = `eventTypes['${type}']`;
  const refuse = (at: string, problem: string, cause?: unknown): never => {
    throw new GatewayError('invalid_options', `${at}: ${problem}`, { param: at, cause });
  };
  if (Object.hasOwn(spec.webhooks, type)) refuse(param, 'is already an event type of the gateway');
  let catalogue: ReturnType<typeof createCatalogue> | undefined;
  try {
    catalogue = createCatalogue({ ...spec, webhooks: { [type]: toWebhook(type, options) } });
  } catch (error) {
    refuse(`${param}.schema`, `is not a valid JSON schema: ${(error as Error).message}`, error);
  }
  try {
    catalogue?.validate(type, options.example);
  } catch (error) {
    refuse(`${param}.example`, `does not fit the schema: ${(error as Error).message}`, error);
  }
}

/**
 * Adds the host's event types to openapi.yaml, so that every part that reads the types from it knows them. A webhook
 * subscribes to any text in `EventTypes` as clients see it; here, to one of the types that there are.
 * @throws GatewayError `invalid_options` for an existing type, an invalid schema, or an example that does not fit
 */
export function addCustomEventTypes(spec: Spec, types: Readonly<Record<string, EventTypeOptions>>): Spec {
  if (Object.keys(types).length === 0) return withKnownTypes(spec);
  for (const [type, options] of Object.entries(types)) check(spec, type, options);
  return withTypes(spec, types);
}
