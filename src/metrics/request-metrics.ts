import { Counter, type Registry } from 'prom-client';
import type { EndedRequest, RequestObserver } from '../http/operation.ts';
import { inBatches } from './in-batches.ts';
import { statusClass } from './status-class.ts';

/** Counts the requests under `/v1`. */
export function requestMetrics(registers: Registry[]): RequestObserver {
  const requests = new Counter({
    name: 'gateway_http_requests_total',
    help: 'Requests under /v1 that were answered, by operation of openapi.yaml and class of the status',
    labelNames: ['operation', 'status'],
    registers,
  });
  const errors = new Counter({
    name: 'gateway_http_errors_total',
    help: "Requests under /v1 that the gateway refused or failed, by the error's code",
    labelNames: ['code'],
    registers,
  });
  const count = inBatches(
    ({ operation, status, code }: Pick<EndedRequest, 'operation' | 'status' | 'code'>) => {
      if (status !== undefined) requests.inc({ operation, status: statusClass(status) });
      if (code !== undefined) errors.inc({ code });
    },
    requests,
    errors,
  );
  // the rest of a request need not be kept
  return { ended: ({ operation, status, code }) => count({ operation, status, code }) };
}
