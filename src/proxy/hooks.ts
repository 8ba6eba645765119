import { describeThrown, GatewayError, isGatewayError } from '../errors.ts';
import type { Logger, ModelCall, ModelHooks } from '../options/options.ts';

/** The host's hooks, as the relay calls them. It waits for `onRequest` alone. */
export interface RelayHooks {
  onRequest(call: ModelCall): Promise<{ readonly model?: string } | undefined>;
  onResponse(call: ModelCall, upstream: string, status: number, firstByteMs: number): void;
}

/** Runs a host's function that nobody waits for; what it throws is told to the log and to nobody else. */
export function callHook(logger: Logger, name: keyof ModelHooks, run: () => void | Promise<void>): void {
  const report = (error: unknown): void => logger.error(`the host's ${name} failed`, { error: describeThrown(error) });
  try {
    const running: unknown = run();
    if (running !== undefined) Promise.resolve(running).catch(report);
  } catch (error) {
    report(error);
  }
}

/** The model that a host has called in the place of the one asked for; whatever else it gives is the host's mistake. */
function replacementModel(given: unknown): { readonly model?: string } | undefined {
  if (given === undefined || given === null) return undefined;
  const { model } = given as { readonly model?: unknown };
  if (model === undefined) return undefined;
  if (typeof model === 'string' && model !== '') return { model };
  throw new TypeError('onRequest must give { model } with the name of a model, or nothing');
}

/** The host's hooks as the relay calls them; `undefined` where there are none, so that no call pays for them. */
export function relayHooks({ onRequest, onResponse }: ModelHooks, logger: Logger): RelayHooks | undefined {
  if (!onRequest && !onResponse) return undefined;
  return {
    async onRequest(call) {
      try {
        return replacementModel(await onRequest?.(call));
      } catch (error) {
        if (isGatewayError(error)) throw error;
        throw new GatewayError('internal_error', 'The call could not be checked.', { cause: error });
      }
    },
    onResponse(call, upstream, status, firstByteMs) {
      if (onResponse) callHook(logger, 'onResponse', () => onResponse({ ...call, upstream, status, firstByteMs }));
    },
  };
}
