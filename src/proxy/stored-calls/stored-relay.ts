import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';
import type { ApiRequest } from '../../http/operation.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { type AdmissionCheck, requestAdmission } from '../admission.ts';
import { CallDeadline } from '../call-deadline.ts';
import { failureFrom } from '../failure.ts';
import type { BackgroundResponses } from '../ownership/background-responses.ts';
import { inputItems } from '../ownership/input-items.ts';
import { ownedResponse } from '../ownership/owned-response.ts';
import { metadataOf } from '../ownership/references.ts';
import { requireOwnItems } from '../ownership/require-own-items.ts';
import { requireOwned } from '../ownership/require-owned.ts';
import { shownItems } from '../ownership/shown-items.ts';
import type { StoredObject, StoredObjects } from '../ownership/stored-objects.ts';
import { selectUpstreams, type Upstream } from '../upstream.ts';
import { countShownEnd, isUncounted } from './count-shown-end.ts';
import { relayStoredCall, type StoredCallDependencies, type StoredRequest } from './stored-call.ts';
import { idParameter, type StoredEndpoint, upstreamPath } from './stored-endpoint.ts';

export interface StoredRelayDependencies extends StoredCallDependencies {
  readonly upstreams: readonly Upstream[];
  readonly storedObjects: StoredObjects;
  readonly backgroundResponses: BackgroundResponses;
  /** Which checks may refuse a call that has an upstream keep more, in this order. */
  readonly admissionChecks: readonly AdmissionCheck[];
}

/** Relays one call about what an upstream keeps. */
export type StoredRelay = (endpoint: StoredEndpoint, apiRequest: ApiRequest, res: ServerResponse) => Promise<void>;

/** Makes the function that serves these endpoints. It throws a GatewayError as long as it has sent nothing. */
export function createStoredRelay(deps: StoredRelayDependencies): StoredRelay {
  const { upstreams, storedObjects, backgroundResponses, logger } = deps;

  /** What is done when an upstream has answered 2xx. */
  function onSuccessOf(
    { kind, effect }: StoredEndpoint,
    apiRequest: ApiRequest,
    id: string,
  ): StoredRequest['onSuccess'] {
    const { userId } = apiRequest.principal;
    if (effect === 'creates') {
      return ({ name: upstream }, response) =>
        ownedResponse(response, { kind, userId, upstream, model: null }, storedObjects);
    }
    const metadata = effect === 'changesMetadata' ? metadataOf(apiRequest.rawBody, apiRequest.fields) : undefined;
    return async (_upstream, response) => {
      try {
        if (effect === 'removes') await storedObjects.remove({ id, userId });
        if (metadata) await storedObjects.setMetadata({ id, userId }, metadata);
      } catch (error) {
        // the upstream has done it, and says so also when it is asked again
        logger.warn('a change of what an upstream keeps was not noted', { kind, id, reason: String(error) });
      }
      return response;
    };
  }

  const itemsOf = ({ takesItems }: StoredEndpoint, apiRequest: ApiRequest) =>
    takesItems ? inputItems(apiRequest, 'items') : [];

  /** Notes the items that an answer shows as those of its account. */
  function noteItems(
    { showsItems }: StoredEndpoint,
    apiRequest: ApiRequest,
    object: StoredObject,
  ): StoredRequest['onSuccess'] {
    return async (_upstream, response) => {
      if (showsItems === undefined) return response;
      if (showsItems !== 'item') return shownItems(response, showsItems, object, storedObjects);
      await storedObjects.addItems([apiRequest.params.item_id as string], object);
      return response;
    };
  }

  /** The object that a call is about, and the upstreams that may answer: the one that keeps it, or any for a new one. */
  async function routeOf(endpoint: StoredEndpoint, apiRequest: ApiRequest, param: string | undefined) {
    const { kind } = endpoint;
    const { params, principal } = apiRequest;
    if (param === undefined) {
      // no account would own what the upstream keeps
      storedObjects.require();
      const keepers = await requireOwnItems(storedObjects, principal, await itemsOf(endpoint, apiRequest), upstreams);
      return { object: undefined, order: selectUpstreams(keepers, undefined) };
    }
    const reference = { kind, id: params[param] as string, param };
    const { objects, keepers } = await requireOwned(storedObjects, principal, [reference], upstreams);
    const items = await itemsOf(endpoint, apiRequest);
    return {
      object: objects[0] as StoredObject,
      order: await requireOwnItems(storedObjects, principal, items, keepers),
    };
  }

  /** What is deleted cannot be counted any more. @throws GatewayError `response_in_progress` */
  async function requireCounted({ effect }: StoredEndpoint, object: StoredObject | undefined): Promise<void> {
    if (effect !== 'removes' || !isUncounted(object) || (await backgroundResponses.settle(object))) return;
    throw new GatewayError('response_in_progress', 'This response has not ended; cancel it before you delete it');
  }

  /** Counts a call that has an upstream keep more as a request of its account; it uses no tokens. */
  async function requireRoom({ method, path, effect }: StoredEndpoint, apiRequest: ApiRequest, res: ServerResponse) {
    if (method !== 'POST' || path.endsWith('/cancel') || effect === 'removes') return;
    const { requestId, principal } = apiRequest;
    const info = { requestId, principal, endpoint: path, model: undefined, stream: false };
    const request = { info, estimatedTokens: 0, output: { choices: 1, maxTokens: 0 } };
    const admissions = await requestAdmission(deps.admissionChecks, request, res);
    for (const admission of admissions) admission.dropped();
  }

  return async function relayStored(endpoint, apiRequest, res) {
    const param = idParameter(endpoint);
    const { object, order } = await routeOf(endpoint, apiRequest, param);
    await requireRoom(endpoint, apiRequest, res);
    await requireCounted(endpoint, object);
    const { method } = endpoint;
    const act =
      endpoint.showsEnd && isUncounted(object)
        ? countShownEnd(object, backgroundResponses)
        : onSuccessOf(endpoint, apiRequest, object?.id ?? '');
    const onSuccess: StoredRequest['onSuccess'] = async (upstream, response) => {
      const answer = await act(upstream, response);
      return object ? noteItems(endpoint, apiRequest, object)(upstream, answer) : answer;
    };
    deps.retry.budget.earn();
    const deadline = new CallDeadline(apiRequest.client, (order[0] as Upstream).timeouts.total);
    const path = upstreamPath(endpoint, apiRequest.params);
    const request = { apiRequest, method, path, template: endpoint.path, order, deadline, onSuccess };
    try {
      await relayStoredCall(deps, request, res);
    } catch (error) {
      // the client has left and reads no answer
      if (deadline.clientDisconnected) return;
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  };
}
