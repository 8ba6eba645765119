import { jsonBodyOf, type Spec, type SpecOperation } from '../../openapi/spec.ts';
import { type CheckForm, createFormCheck } from '../body/form/check-form.ts';
import { type BodyShape, bodyShape } from '../json/scan.ts';
import { isRelayed, type Route } from '../route.ts';
import { createRemoveAbsentNulls, type RemoveAbsentNulls } from '../validation/absent-nulls.ts';
import { type CompiledCheck, createCompiledCheck } from '../validation/compiled-check.ts';
import { createValidator, type Validate } from '../validation/validate-request.ts';

/** What openapi.yaml says of requests, compiled. */
export interface RequestChecks {
  /** What of a relayed JSON body is described; `undefined` for any other route. */
  readonly shapeOf: (route: Route) => BodyShape | undefined;
  readonly checkForm: CheckForm;
  readonly isValid: CompiledCheck;
  readonly removeAbsentNulls: RemoveAbsentNulls;
  /** For every route that takes JSON or nothing. */
  readonly validate: Validate;
}

/** Whether an operation takes only forms, which are checked separately. */
function isUploadOnly({ mediaTypes }: Route): boolean {
  return mediaTypes.size > 0 && !mediaTypes.has('application/json');
}

function jsonShape(spec: Spec, { description }: Route): BodyShape | undefined {
  const schema = jsonBodyOf(description)?.schema;
  return schema && bodyShape(spec, schema);
}

/** Whether the operator's services call an operation for each event. */
const isPublication = ({ scope }: Route): boolean => scope === 'events:publish';

/** The validator compares a request with each path that it has until one matches, so the relay has a separate one. */
async function createValidators(spec: Spec, routes: readonly Route[]): Promise<Validate> {
  const groups = [routes.filter(isRelayed), routes.filter((route) => !isRelayed(route))];
  const validators = new Map<SpecOperation, Validate>();
  for (const group of groups) {
    const validate = await createValidator(spec, group);
    for (const { description } of group) validators.set(description, validate);
  }
  return async (req, route, parsed) => {
    const validate = validators.get(route.description);
    if (!validate) throw new Error(`nothing checks the requests of ${route.description.operationId}`);
    await validate(req, route, parsed);
  };
}

async function compile(spec: Spec, routes: readonly Route[]): Promise<RequestChecks> {
  const checked = routes.filter((route) => !isUploadOnly(route));
  const relayed = checked.filter(isRelayed);
  const shapes = new Map(relayed.map((route) => [route.description, jsonShape(spec, route)]));
  return {
    shapeOf: ({ description }) => shapes.get(description),
    checkForm: createFormCheck(spec, routes),
    isValid: createCompiledCheck(
      spec,
      checked.filter((route) => isRelayed(route) || isPublication(route)),
    ),
    removeAbsentNulls: createRemoveAbsentNulls(spec, checked),
    validate: await createValidators(spec, checked),
  };
}

const compiled = new WeakMap<Spec, Map<string, Promise<RequestChecks>>>();

/**
 * The checks of some routes of a document. Gateways of a process that have the same document and routes share them:
 * each after the first starts with 165 instead of 690 ms of CPU, which counts in a host's tests.
 */
export function requestChecks(spec: Spec, routes: readonly Route[]): Promise<RequestChecks> {
  const ofSpec = compiled.get(spec) ?? new Map<string, Promise<RequestChecks>>();
  compiled.set(spec, ofSpec);
  const key = routes.map((route) => `${route.description.operationId} ${isRelayed(route)}`).join();
  const checks = ofSpec.get(key) ?? compile(spec, routes);
  ofSpec.set(key, checks);
  return checks;
}
