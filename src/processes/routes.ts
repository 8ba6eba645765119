import type { components } from '../api.d.ts';
import type { OperationTable } from '../http/operation.ts';
import type { Backlog, ProcessInfo, ProcessService, UpstreamInfo } from './service.ts';

type Schemas = components['schemas'];

function toProcess(info: ProcessInfo): Schemas['GatewayProcess'] {
  const { id, hostname, pid, version, role } = info;
  return {
    id,
    hostname,
    pid,
    version,
    role,
    started_at: info.startedAt.toISOString(),
    seen_at: info.seenAt.toISOString(),
    is_live: info.isLive,
    event_loop_lag_seconds: info.eventLoopLag,
    attempts_in_progress: info.attempts,
    relayed_calls_in_progress: info.relayedCalls,
    last_sweep_at: info.lastSweepAt?.toISOString() ?? null,
    clock_skew_seconds: info.clockSkew,
  };
}

function toUpstream(info: UpstreamInfo): Schemas['UpstreamStatus'] {
  const { name, processes, breaker, requests, errors, errorCodes, latency, timeToFirstByte, since } = info;
  return {
    name,
    processes,
    breaker: { ...breaker },
    requests,
    errors,
    error_codes: { ...errorCodes },
    latency_seconds: { ...latency },
    time_to_first_byte_seconds: { ...timeToFirstByte },
    since: since.toISOString(),
  };
}

function toBacklog(backlog: Backlog): Schemas['Backlog'] {
  return {
    due: backlog.due,
    due_is_more: backlog.dueIsMore,
    oldest_due_at: backlog.oldestDueAt?.toISOString() ?? null,
    oldest_due_seconds: backlog.oldestDueSeconds,
    scheduled: backlog.scheduled,
    scheduled_is_more: backlog.scheduledIsMore,
    fan_outs_pending: backlog.fanOutsPending,
    fan_outs_is_more: backlog.fanOutsIsMore,
    oldest_fan_out_seconds: backlog.oldestFanOutSeconds,
    in_progress: backlog.inProgress,
  };
}

/** The operations that show all processes, with the scope `admin`. */
export function processOperations(service: ProcessService) {
  return {
    listProcesses: {
      handle: async () => ({ status: 200, body: { data: (await service.processes()).map(toProcess) } }),
    },
    listUpstreams: {
      handle: async () => ({ status: 200, body: { data: (await service.upstreams()).map(toUpstream) } }),
    },
    retrieveBacklog: { handle: async () => ({ status: 200, body: toBacklog(await service.backlog()) }) },
  } satisfies Partial<OperationTable>;
}
