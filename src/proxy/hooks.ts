import { callUnawaited, GatewayError, isGatewayError } from '../errors.ts';
import type { Logger, ModelCall, ModelHooks, UsageRecord } from '../options/options.ts';

/** The host's hooks, as the relay calls them. It waits for `onRequest` alone. */
export interface RelayHooks {
  onRequest(call: ModelCall): Promise<{ readonly model?: string } | undefined>;
  onResponse(call: ModelCall, upstream: string, status: number, firstByteMs: number): void;
}

/** Runs a host's function without waiting for it, and logs what it throws. */
function callHook(logger: Logger, name: keyof ModelHooks, run: () => void | Promise<void>): void {
  callUnawaited(run, (error) => logger.error(`the host's ${name} failed`, { error }));
}

/** The model that the host names instead of the requested one. @throws TypeError for anything else that it returns */
function replacementModel(returned: unknown): { readonly model?: string } | undefined {
  if (returned === undefined || returned === null) return undefined;
  const { model } = returned as { readonly model?: unknown };
  if (model === undefined) return undefined;
  if (typeof model === 'string' && model !== '') return { model };
  throw new TypeError('onRequest must return { model } with the name of a model, or nothing');
}

/** The host's hooks as the relay calls them; `undefined` when there are none, so that calls cost nothing extra. */
export function relayHooks({ onRequest, onResponse }: ModelHooks, logger: Logger): RelayHooks | undefined {
  if (!onRequest && !onResponse) return undefined;
  return {
    async onRequest(call) {
      try {
        return replacementModel(await onRequest?.(call));
      } catch (error) {
        if (isGatewayError(error)) throw error;
        throw new GatewayError(
          'internal_error',
          'The call could not be checked; quote the x-request-id when you ask the operator about it',
          { cause: error },
        );
      }
    },
    onResponse(call, upstream, status, firstByteMs) {
      if (onResponse) callHook(logger, 'onResponse', () => onResponse({ ...call, upstream, status, firstByteMs }));
    },
  };
}

/** The host's `onUsage`, as the gateway calls it; `undefined` where there is none. */
export function usageHook({ onUsage }: ModelHooks, logger: Logger): ((record: UsageRecord) => void) | undefined {
  if (!onUsage) return undefined;
  return (record) =>
    // a copy: the host must not change what is charged and written later
    callHook(logger, 'onUsage', () => onUsage({ ...record, startedAt: new Date(record.startedAt) }));
}

/** Told of the requests to upstreams, and of what calls have used. */
export interface ModelObserver {
  /** An upstream gave a response to a model call. @param took until its head was there, in milliseconds */
  upstreamAnswered(upstream: string, status: number, took: number): void;
  /** An upstream gave no response to a model call, or an error in a response of 2xx. @param code why */
  upstreamFailed(upstream: string, code: string): void;
  /** The usage of a call is known. */
  usageCounted(record: UsageRecord): void;
}
