import type { Logger } from '../../options/options.ts';
import type { Upstream } from './upstream.ts';

/** Tells the operator when an upstream begins to fail, and when it answers again: once each, however many calls there are. */
export interface FailureLog {
  /** The upstream gave no response. @param code why */
  failed(upstream: Pick<Upstream, 'name'>, url: string, code: string): void;
  /** The upstream gave a response with this status. */
  answered(upstream: Pick<Upstream, 'name'>, url: string, status: number): void;
}

/** The upstream fails, or refuses the gateway's key. */
const concernsOperator = (status: number): boolean => status >= 500 || status === 401 || status === 403;

export function createFailureLog(logger: Logger): FailureLog {
  const failing = new Set<string>();
  /** Those that have answered a call with success: their address is right, and a 404 is about what the client asked for. */
  const proven = new Set<string>();

  function failed({ name }: Pick<Upstream, 'name'>, url: string, reason: number | string): void {
    if (failing.has(name)) return;
    failing.add(name);
    const { origin, pathname } = new URL(url);
    logger.warn('an upstream fails', { upstream: name, url: origin + pathname, reason });
  }

  return {
    failed,
    answered(upstream, url, status) {
      const { name } = upstream;
      if (concernsOperator(status) || (status === 404 && !proven.has(name))) return failed(upstream, url, status);
      if (status < 300) proven.add(name);
      if (failing.delete(name)) logger.info('an upstream answers again', { upstream: name });
    },
  };
}
