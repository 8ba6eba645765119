import { Counter, type Registry } from 'prom-client';
import type { RequestObserver } from '../http/request/request-observer.ts';
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
  return {
    ended({ operation, status, code }) {
      if (status !== undefined) requests.inc({ operation, status: statusClass(status) });
      if (code !== undefined) errors.inc({ code });
    },
  };
}
