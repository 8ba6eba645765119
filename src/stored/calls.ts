import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { GatewayError, refuse } from '../errors.ts';
import { AccountTurns } from '../fairness/account-shares.ts';
import type { ApiRequest, RelayOperation } from '../http/operation.ts';
import { requestAdmission, settle } from '../proxy/admission.ts';
import { shortValue } from '../proxy/model-body.ts';
import { routeModel, selectUpstreams, speakersOf } from '../proxy/upstream.ts';
import { idParameter, type StoredCall, type StoredOperation, storedCalls, upstreamPath } from './kinds.ts';
import { firstModel } from './message-batch.ts';
import { requestedStored, StoredMeter } from './metering.ts';
import { createPartCheck } from './parts.ts';
import { fileReferences, namedObjects, requireOwned } from './references.ts';
import { infoOf, StoredExchange, type StoredRelayDeps, type StoredRoute } from './stored-exchange.ts';
import { isUncounted, type StoredObject } from './stored-object.ts';
import { mostUnfinished } from './work.ts';

/** Serves one call about what an upstream keeps. Throws a GatewayError as long as it has sent nothing. */
export type StoredRelay = (call: StoredCall, apiRequest: ApiRequest, res: ServerResponse) => Promise<void>;

/** The operations about what upstreams keep. */
export function storedOperations({ relay, list }: { readonly relay: StoredRelay; readonly list: StoredRelay }) {
  const operations = Object.entries(storedCalls).map(([operationId, call]) => {
    const serve = call.lists ? list : relay;
    const operation: RelayOperation = {
      streamsUp: call.streamsUp ?? false,
      // what is not taken of an upload is dropped before an error is answered, so that the connection can take the next request
      relay: (apiRequest, res) => serve(call, apiRequest, res).finally(() => apiRequest.bodyStream?.destroy()),
    };
    return [operationId, operation];
  });
  return Object.fromEntries(operations) as Readonly<Record<StoredOperation, RelayOperation>>;
}

/** Relays calls about what upstreams keep to the upstream that keeps it. */
export function createStoredRelay(deps: StoredRelayDeps): StoredRelay {
  const files = new FilePlaces(deps);
  const shared = { ...deps, requireParts: createPartCheck(deps), workTurns: new AccountTurns(1) };

  return async function relayStored(call, apiRequest, res) {
    const requested = requestedStored(call, infoOf(call, apiRequest), apiRequest, deps.maxFileBytes);
    const admissions = call.isCounted ? await requestAdmission(deps.admissionChecks, requested, res) : [];
    const meter = new StoredMeter(requested, apiRequest);
    try {
      const route = await routeOf(deps, call, apiRequest);
      await requireCounted(deps, call, route.object);
      deps.retry.budget.earn();
      const release = call.makesFile ? await files.take(apiRequest) : undefined;
      try {
        await new StoredExchange(shared, call, apiRequest, route, meter).run(res);
      } finally {
        release?.();
      }
    } finally {
      settle(deps, { admissions }, meter.record());
    }
  };
}

/**
 * Always the same number for an account, as `Math.random` gives it: what it has several upstreams keep is in one of them as long as these stay,
 * so that it can be named together.
 */
function sameFor(userId: string): () => number {
  const share = createHash('sha256').update(userId).digest().readUInt32BE() / 2 ** 32;
  return () => share;
}

/**
 * The object that a call is about, and the upstreams that may answer: the one that keeps it, or any for a new one.
 * @throws GatewayError `response_not_found` and so on, `invalid_value` for what is no id, `database_unavailable`
 */
async function routeOf(
  { storedObjects, upstreams }: StoredRelayDeps,
  call: StoredCall,
  apiRequest: ApiRequest,
): Promise<StoredRoute> {
  const { kind, takesItems, runsFile, runsBody } = call;
  const { principal, dialect, rawBody } = apiRequest;
  const param = idParameter(call);
  // no account would own what the upstream keeps
  if (param === undefined) storedObjects.require();
  const references = [
    ...(param === undefined ? [] : [{ kind, id: apiRequest.params[param] as string, param }]),
    ...fileReferences(call, apiRequest),
    ...(await namedObjects(apiRequest)),
  ];
  const referred = { references, ...(takesItems && { itemsIn: 'items' }) };
  const { speakers } = speakersOf(upstreams, dialect);
  const { objects, keepers } = await requireOwned(storedObjects, apiRequest, referred, speakers);
  const object = param === undefined ? undefined : objects[0];
  const input = runsFile && shortValue(rawBody, apiRequest.fields.get(runsFile));
  const file = runsFile && objects.find((each) => each.kind === 'file' && each.id === input);
  // nothing is made of a file that nobody has read
  if (runsFile && !file) refuse('invalid_value', runsFile, 'must be the id of a file');
  const path = upstreamPath(call, apiRequest.params);
  if (objects.length > 0) return { path, object, file, order: keepers as StoredRoute['order'] };
  const { userId } = principal;
  const order = runsBody
    ? await routeModel(keepers, await firstModel(rawBody), userId, storedObjects.models)
    : selectUpstreams(keepers, undefined, sameFor(userId));
  return { path, object, file, order };
}

/** What is deleted cannot be counted any more. @throws GatewayError `response_in_progress` */
async function requireCounted(
  { storedObjects, backgroundResponses }: StoredRelayDeps,
  { effect }: StoredCall,
  object: StoredObject | undefined,
): Promise<void> {
  if (effect !== 'removes' || !object) return;
  const { kind, userId } = object;
  if (kind === 'file') {
    // what a batch has answered may say what it has used: those that have ended are counted before a file is deleted
    const batches = await storedObjects.uncounted({ userId, kind: 'batch' }, mostUnfinished);
    for (const batch of batches) await backgroundResponses.settle(batch);
  } else if (isUncounted(object) && !(await backgroundResponses.settle(object))) {
    throw new GatewayError('response_in_progress', 'This response has not ended; cancel it before you delete it');
  }
}

/** With those that an account has, the files that are being made for it are as many as it may have, in this process. */
class FilePlaces {
  readonly #deps: Pick<StoredRelayDeps, 'storedObjects' | 'maxFiles' | 'maxFileBytes'>;
  /** The files that are being made, by account. */
  readonly #underWay = new Map<string, number>();

  constructor(deps: Pick<StoredRelayDeps, 'storedObjects' | 'maxFiles' | 'maxFileBytes'>) {
    this.#deps = deps;
  }

  /** @returns what ends it. @throws GatewayError `file_limit_reached`, `database_unavailable`; `request_too_large` for an upload that announces more */
  async take({ principal: { userId }, body }: ApiRequest): Promise<() => void> {
    const { storedObjects, maxFiles, maxFileBytes } = this.#deps;
    const { bytes = 0 } = (body ?? {}) as { readonly bytes?: number };
    if (bytes > maxFileBytes) {
      const message = `bytes: must be ${maxFileBytes} at most, the largest file that this gateway takes`;
      throw new GatewayError('request_too_large', message, { param: 'bytes' });
    }
    const underWay = this.#underWay.get(userId) ?? 0;
    this.#underWay.set(userId, underWay + 1);
    try {
      const stored = await storedObjects.count({ userId, kind: 'file' }, maxFiles);
      if (stored + underWay < maxFiles) return () => this.#release(userId);
      throw new GatewayError(
        'file_limit_reached',
        `This account has ${maxFiles} files, the most it may have; delete some`,
      );
    } catch (error) {
      this.#release(userId);
      throw error;
    }
  }

  #release(userId: string): void {
    const left = (this.#underWay.get(userId) ?? 1) - 1;
    if (left > 0) this.#underWay.set(userId, left);
    else this.#underWay.delete(userId);
  }
}
