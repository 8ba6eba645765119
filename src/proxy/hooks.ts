import { GatewayError } from '../errors.ts';
import type { Logger, ModelHooks } from '../options.ts';
import type { RelayHooks } from './relay.ts';

/** Runs a host's function that nobody waits for; what it throws is told to the log and to nobody else. */
export function tell(logger: Logger, name: keyof ModelHooks, run: () => void | Promise<void>): void {
  const report = (error: unknown): void => logger.error(`the host's ${name} failed`, { error: String(error) });
  try {
    run()?.catch(report);
  } catch (error) {
    report(error);
  }
}

/** The host's hooks as the relay calls them; `undefined` where there are none, so that no call pays for them. */
export function relayHooks({ onRequest, onResponse }: ModelHooks, logger: Logger): RelayHooks | undefined {
  if (!onRequest && !onResponse) return undefined;
  return {
    async onRequest(call) {
      try {
        return await onRequest?.(call);
      } catch (error) {
        if (error instanceof GatewayError) throw error;
        throw new GatewayError('internal_error', 'The call could not be checked.', { cause: error });
      }
    },
    onResponse(call, upstream, status, firstByteMs) {
      if (onResponse) tell(logger, 'onResponse', () => onResponse({ ...call, upstream, status, firstByteMs }));
    },
  };
}
