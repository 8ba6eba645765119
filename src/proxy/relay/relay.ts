import type { ServerResponse } from 'node:http';
import { refuse } from '../../errors.ts';
import type { ApiRequest } from '../../http/operation.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { requireOwned, storedReferences, storingOf } from '../../stored/references.ts';
import { type AdmissionCheck, requestAdmission } from '../admission.ts';
import { requireAllowedModel } from '../allowed-models.ts';
import { CallDeadline } from '../call-deadline.ts';
import type { Endpoint } from '../endpoint.ts';
import { failureFrom } from '../failure.ts';
import { estimateInput } from '../metering/estimate-input.ts';
import { checkModelName } from '../request/model-name.ts';
import { shortValue } from '../request/short-value.ts';
import { selectUpstreams } from '../routing/select-upstreams.ts';
import type { Upstream } from '../routing/upstream.ts';
import type { ModelRequest } from './model-request.ts';
import { RelayedCall, type RelayedCallDependencies } from './relayed-call.ts';

export interface RelayDependencies extends RelayedCallDependencies {
  readonly upstreams: readonly Upstream[];
  /** Which checks may refuse a call, in this order. */
  readonly admissionChecks: readonly AdmissionCheck[];
}

/** Relays one call of an endpoint. */
export type Relay = (endpoint: Endpoint, apiRequest: ApiRequest, res: ServerResponse) => Promise<void>;

/**
 * Whether a response is to be made after the call has been answered.
 * @throws GatewayError `invalid_value` where the upstream would keep nothing that can be asked for afterwards
 */
function asksForBackground(
  { answersResponse }: Endpoint,
  { rawBody, fields }: ApiRequest,
  storing: ModelRequest['storing'],
): boolean {
  if (!answersResponse || shortValue(rawBody, fields.get('background')) !== true) return false;
  if (storing) return true;
  return refuse('invalid_value', 'store', 'must not be false with background: true');
}

/** @throws GatewayError `invalid_value`, `model_not_allowed` */
function readRequest(endpoint: Endpoint, apiRequest: ApiRequest): ModelRequest {
  const { requestId, principal } = apiRequest;
  const body = endpoint.readBody(apiRequest);
  checkModelName(body.model);
  if (body.model !== undefined) apiRequest.relayed.model = body.model;
  requireAllowedModel(principal, body.model);
  const info = { requestId, principal, endpoint: endpoint.path, model: body.model, stream: body.stream };
  const storing = storingOf(endpoint.stores, apiRequest);
  const inBackground = asksForBackground(endpoint, apiRequest, storing);
  const estimatedTokens = endpoint.isFree ? 0 : estimateInput(body);
  return { endpoint, apiRequest, body, info, storing, inBackground, estimatedTokens, output: body.output };
}

/** Makes the function that serves every model endpoint. It throws a GatewayError as long as it has sent nothing. */
export function createRelay(deps: RelayDependencies): Relay {
  /** The upstreams that keep what the call continues; all of them if it continues nothing. */
  async function keepersOf({ apiRequest }: ModelRequest): Promise<readonly Upstream[]> {
    const referred = { references: storedReferences(apiRequest), itemsIn: 'input' };
    return (await requireOwned(deps.storedObjects, apiRequest, referred, deps.upstreams)).keepers;
  }

  return async function relay(endpoint, apiRequest, res) {
    const request = readRequest(endpoint, apiRequest);
    // no account would own what the upstream keeps
    if (request.storing) deps.storedObjects.require();
    if (request.inBackground) deps.backgroundResponses.requireRoom(request.info.principal.userId);
    const admissions = await requestAdmission(deps.admissionChecks, request, res);
    let { model } = request.body;
    let order: readonly [Upstream, ...Upstream[]];
    try {
      const keepers = endpoint.continues ? await keepersOf(request) : deps.upstreams;
      if (deps.hooks) model = (await deps.hooks.onRequest(request.info))?.model ?? model;
      order = selectUpstreams(keepers, model);
    } catch (error) {
      for (const admission of admissions) admission.dropped();
      throw error;
    }

    deps.retry.budget.earn();
    const deadline = new CallDeadline(apiRequest.client, order[0].timeouts.total);
    try {
      await new RelayedCall(deps, request, { model, order, deadline, admissions }).run(res);
    } catch (error) {
      // the client has left and reads no answer
      if (deadline.clientDisconnected) return;
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  };
}
