import { GatewayError } from '../errors.ts';
import type { OperationTable, RelayOperation } from '../http/operation.ts';
import { operationIdOf } from '../options/endpoints.ts';
import type { EndpointOptions, Logger, ModelHooks } from '../options/options.ts';
import { PendingWork } from '../pending-work.ts';
import { type AdmissionCheck, mayCall, type RunningResponses } from './admission.ts';
import type { CallStorage } from './call-storage.ts';
import { type Endpoint, endpoints, ownEndpoint, readOfAny, spokenBy } from './endpoint.ts';
import { createUpstreamReports } from './failure.ts';
import { type ModelObserver, relayHooks, usageHook } from './hooks.ts';
import { listShapes, ModelList, modelShapes } from './model-list.ts';
import { type CallDependencies, createRelay, type RelayDependencies } from './relay.ts';
import type { RetryPolicy } from './retry.ts';
import { speakersOf, type Upstream } from './upstream.ts';
import type { BreakerState } from './upstream-state.ts';
import type { UsageRecorder } from './usage-meter.ts';

export interface ProxyDependencies {
  /** They are closed with the proxy. */
  readonly upstreams: readonly Upstream[];
  /** Of the host's own. @default none */
  readonly endpoints?: readonly EndpointOptions[];
  readonly logger: Logger;
  readonly retry: RetryPolicy;
  readonly hooks?: ModelHooks;
  /** Which checks may refuse a call before it is routed, in this order. @default none */
  readonly admissionChecks?: readonly AdmissionCheck[];
  /** Where usage records go. `onUsage` is called in any case. @default nowhere */
  readonly usageRecorder?: UsageRecorder;
  readonly storage: CallStorage;
  readonly backgroundResponses: RunningResponses;
  /** Makes the idempotency keys of one account differ from those of another. The same in all processes. */
  readonly idempotencySecret: Buffer;
  /** Whether answers name their upstream in `x-gateway-upstream`. @default false */
  readonly exposeUpstream?: boolean;
  /** Whether an upstream's call is aborted when the client leaves; otherwise it runs to its end. @default true */
  readonly abortOnDisconnect?: boolean;
  /** After how long without anything to send a stream gets a comment. Milliseconds. @default it gets none */
  readonly streamHeartbeat?: number | undefined;
  /** Told of requests to upstreams and of usage. @default none */
  readonly observers?: readonly ModelObserver[];
  /** Whether upstreams get the trace context of their requests. @default false */
  readonly propagateTrace?: boolean;
  /** How long the merged list of models is kept. Milliseconds. @default 60_000 */
  readonly modelListLifetime?: number;
}

/** An upstream at this moment. */
export interface UpstreamState {
  readonly name: string;
  /** Calls under way in this process. */
  readonly calls: number;
  /** Requests of model calls whose response has not begun; those about what upstreams keep are left out. */
  readonly waiting: number;
  /** Whether many of them wait or were given up, and none has been answered for minutes. */
  readonly isHanging: boolean;
  /** Of its breaker, for the calls of every account. */
  readonly breaker: BreakerState;
}

export interface ModelProxy {
  readonly operations: ReturnType<typeof modelOperations>;
  /** The same of the host's own endpoints. */
  readonly ownOperations: Readonly<Record<string, RelayOperation>>;
  /** What calls are relayed with, for those that come over a WebSocket. */
  readonly relaying: RelayDependencies;
  /** The same for calls of no model: {@link ModelObserver}s hear nothing of them. */
  readonly calling: CallDependencies;
  /** The same function, whose calls are waited for when the gateway closes. */
  tracked<Parameters extends unknown[]>(
    relay: (...parameters: Parameters) => Promise<void>,
  ): (...parameters: Parameters) => Promise<void>;
  /** The upstreams at this moment. */
  states(): UpstreamState[];
  /** Resolves when no call is under way, those whose clients have left among them, or after so many milliseconds. */
  drain(maxWait: number): Promise<void>;
  /** Closes every connection to the upstreams. Calls in flight end with the error `shutting_down`. */
  close(): Promise<void>;
}

/** How long calls may take to end when the gateway closes. Milliseconds. */
const closeTimeout = 5_000;

const noRecorder: UsageRecorder = { opened() {}, closed() {}, dropped() {} };

/** Gives records to the recorder, then to the observers and to the host's `onUsage`. */
function withListeners(
  usageRecorder: UsageRecorder,
  observers: readonly ModelObserver[],
  onUsage: ReturnType<typeof usageHook>,
): UsageRecorder {
  return {
    ...usageRecorder,
    closed(record) {
      usageRecorder.closed(record);
      for (const observer of observers) observer.usageCounted(record);
      onUsage?.(record);
    },
  };
}

/** The model endpoints over the upstreams of the options. */
export function createProxy(deps: ProxyDependencies): ModelProxy {
  const { upstreams, retry, logger, hooks = {}, admissionChecks = [], usageRecorder = noRecorder } = deps;
  const { exposeUpstream = false, abortOnDisconnect = true, idempotencySecret, observers = [] } = deps;
  const { storage, backgroundResponses } = deps;
  const calls = new PendingWork();
  const onUsage = usageHook(hooks, logger);
  const calling: CallDependencies = {
    // what is kept, and what comes over WebSockets, is OpenAI's API
    upstreams: speakersOf(upstreams, 'openai').speakers,
    retry,
    admissionChecks,
    usageRecorder: withListeners(usageRecorder, [], onUsage),
    exposeUpstream,
    streamHeartbeat: deps.streamHeartbeat,
    idempotencySecret,
    propagateTrace: deps.propagateTrace ?? false,
    logger,
  };
  const relaying: RelayDependencies = {
    ...calling,
    storage,
    backgroundResponses,
    usageRecorder: withListeners(usageRecorder, observers, onUsage),
    hooks: relayHooks(hooks, logger),
    reports: createUpstreamReports(logger, observers),
    abortOnDisconnect,
  };
  function tracked<Parameters extends unknown[]>(relay: (...parameters: Parameters) => Promise<void>) {
    return (...parameters: Parameters): Promise<void> => {
      const call = relay(...parameters);
      calls.add(call);
      return call;
    };
  }
  function relayOf(endpoint: Endpoint): RelayOperation['relay'] {
    const { speakers, others } = speakersOf(upstreams, spokenBy(endpoint));
    return tracked(createRelay({ ...relaying, upstreams: speakers, others }, endpoint));
  }
  return {
    operations: modelOperations(relayOf, new ModelList(upstreams, storage.models, logger, deps.modelListLifetime)),
    ownOperations: ownOperations(relayOf, deps.endpoints),
    relaying,
    calling,
    tracked,
    states: () =>
      upstreams.map(({ name, calls, awaited, breaker }) => ({
        name,
        calls: calls.underWay,
        waiting: awaited.waiting,
        isHanging: awaited.isHanging,
        breaker: breaker.state,
      })),
    drain: (maxWait) => calls.done(maxWait),
    async close() {
      await Promise.all(upstreams.map((upstream) => upstream.close()));
      // those calls end now and close their usage records; a host's hook may delay one
      await calls.done(closeTimeout);
    },
  };
}

/** The endpoints of the host's own. */
function ownOperations(
  relayOf: (endpoint: Endpoint) => RelayOperation['relay'],
  rows: readonly EndpointOptions[] = [],
) {
  const operations = rows.map((row): [string, RelayOperation] => {
    const endpoint = ownEndpoint(row);
    return [operationIdOf(row), { relay: relayOf(endpoint), reads: readOfAny, dialect: spokenBy(endpoint) }];
  });
  return Object.fromEntries(operations);
}

/** The model endpoints: relays, and the list of models. */
function modelOperations(relayOf: (endpoint: Endpoint) => RelayOperation['relay'], models: ModelList) {
  const relays = Object.fromEntries(
    Object.entries(endpoints).map(([operationId, endpoint]) => [operationId, { relay: relayOf(endpoint) }]),
  ) as Record<keyof typeof endpoints, RelayOperation>;

  return {
    ...relays,
    listModels: {
      databaseWait: null,
      async handle({ principal, dialect, query: { beta: _, ...page } }) {
        const allowed = (await models.all(principal.userId, dialect)).filter(({ id }) => mayCall(principal, id));
        return { status: 200, body: { object: 'list', ...listShapes[dialect](allowed, page) } };
      },
    },
    retrieveModel: {
      databaseWait: null,
      async handle({ principal, dialect, params }) {
        const { userId } = principal;
        const model = mayCall(principal, params.model) ? await models.find(params.model, userId, dialect) : undefined;
        if (model) return { status: 200, body: modelShapes[dialect](model) };
        throw new GatewayError(
          'model_not_found',
          `The model '${params.model}' does not exist; GET /v1/models lists those that do`,
          { param: 'model' },
        );
      },
    },
  } satisfies Partial<OperationTable>;
}
