import type { Logger } from '../../options/options.ts';
import type { Upstream } from './upstream.ts';

/** Tells the operator when an upstream begins to fail, and when it answers again: once each, however many calls there are. */
export interface FailureLog {
  /** @param reason a status, or the code of a failure without a response */
  failed(upstream: Pick<Upstream, 'name'>, url: string, reason: number | string): void;
  answered(upstream: Pick<Upstream, 'name'>): void;
}

/** Whether a response concerns the operator: the upstream fails, refuses the gateway's key, or has no such path. */
export function concernsOperator(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 404;
}

export function createFailureLog(logger: Logger): FailureLog {
  const failing = new Set<string>();
  return {
    failed({ name }, url, reason) {
      if (failing.has(name)) return;
      failing.add(name);
      const { origin, pathname } = new URL(url);
      logger.warn('an upstream fails', { upstream: name, url: origin + pathname, reason });
    },
    answered({ name }) {
      if (failing.delete(name)) logger.info('an upstream answers again', { upstream: name });
    },
  };
}
