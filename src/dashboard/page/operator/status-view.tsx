import type { ReadResult } from '../data/api.ts';
import { refreshEvery, useRead } from '../data/query.ts';
import type { GatewayProcess, UpstreamStatus } from '../data/types.ts';
import { Badge } from '../elements/badge.tsx';
import { count, counted, milliseconds, percent, span } from '../elements/format.ts';
import { Loaded } from '../elements/states.tsx';
import { type List, Listed, None, numbers, rowNames } from '../elements/table.tsx';
import { Ago, AgoOr } from '../elements/time.tsx';
import { Card, Facts, Heading } from '../elements/view.tsx';

/** How the gateway is doing at this moment, all its processes together. */
export function StatusView() {
  const backlog = useRead('/v1/admin/backlog', {}, refreshEvery);
  const upstreams = useRead('/v1/admin/upstreams', {}, refreshEvery);
  const processes = useRead('/v1/admin/processes', {}, refreshEvery);
  return (
    <>
      <Heading title="Status" />
      <Card text id="backlog" title="Backlog">
        <Loaded query={backlog} lines={2}>
          {(data) => <BacklogFacts backlog={data} />}
        </Loaded>
      </Card>
      <Card
        id="upstreams"
        title="Upstreams"
        aside={<span class="muted small">The last five minutes, all live processes together</span>}
      >
        <Listed query={upstreams} list={upstreamList} empty="No upstreams" />
      </Card>
      <Card id="processes" title="Processes" aside={<span class="muted small">Of the last day</span>}>
        <Listed query={processes} list={processList} empty="No processes" />
      </Card>
    </>
  );
}

/** What waits to be sent. */
function BacklogFacts({ backlog }: { backlog: ReadResult<'/v1/admin/backlog'> }) {
  const orMore = (n: number, isMore: boolean) => `${count(n)}${isMore ? ' or more' : ''}`;
  const oldestDue = <Waiting seconds={backlog.oldest_due_seconds} none={backlog.oldest_due_at === null} />;
  const oldestFanOut = <Waiting seconds={backlog.oldest_fan_out_seconds} none={backlog.fan_outs_pending === 0} />;
  return (
    <Facts
      facts={[
        ['Deliveries due', orMore(backlog.due, backlog.due_is_more)],
        ['Oldest due for', oldestDue],
        ['Being sent', count(backlog.in_progress)],
        ['Due later', orMore(backlog.scheduled, backlog.scheduled_is_more)],
        ['Events in fan-out', orMore(backlog.fan_outs_pending, backlog.fan_outs_is_more)],
        ['Oldest in fan-out for', oldestFanOut],
      ]}
    />
  );
}

/** Seconds; the alert GatewayDeliveriesLate fires after the same time. */
const lateAfter = 300;

/** How long something has been waiting, and whether that is too long. */
function Waiting({ seconds, none }: { seconds: number; none: boolean }) {
  if (none) return <span class="muted">None</span>;
  return (
    <span class="numbers">
      {span(seconds * 1_000)} {seconds > lateAfter && <Badge shape="bad">Late</Badge>}
    </span>
  );
}

/** How the upstreams did in the last minutes. */
const upstreamList: List<UpstreamStatus> = {
  kind: 'upstreams',
  caption: 'Upstreams',
  scrolls: true,
  keyOf: ({ name }) => name,
  columns: [
    { head: 'Breaker', cell: Breaker },
    rowNames('Upstream', ({ name }) => <b>{name}</b>),
    numbers('Requests', ({ requests }) => count(requests)),
    { head: 'Errors', name: true, cell: Errors },
    numbers('Latency p50 / p95', ({ latency_seconds }) => times(latency_seconds)),
    numbers('First byte p50 / p95', ({ time_to_first_byte_seconds }) => times(time_to_first_byte_seconds)),
  ],
};

/** In how many of the processes the breaker is not closed. */
function Breaker({ breaker: { open, half_open, closed } }: UpstreamStatus) {
  const all = open + half_open + closed;
  if (open > 0) return <Badge shape="bad">{`Open in ${open} of ${all}`}</Badge>;
  if (half_open > 0) return <Badge shape="uneasy">{`Half open in ${half_open} of ${all}`}</Badge>;
  return <Badge shape="good">Closed</Badge>;
}

function Errors({ requests, errors, error_codes }: UpstreamStatus) {
  if (errors === 0) return <span class="muted">None</span>;
  const codes = Object.entries(error_codes).sort(([, a], [, b]) => b - a);
  return (
    <>
      <span class="numbers">
        {count(errors)} {requests > 0 && <span class="muted">({percent(errors / requests)})</span>}
      </span>
      <span class="under">{codes.map(([code, n]) => `${code} ${count(n)}`).join(', ')}</span>
    </>
  );
}

/** The median and what one in twenty exceeds. */
function times(of: UpstreamStatus['latency_seconds']) {
  if (of.p50 === null || of.p95 === null) return <None />;
  return `${milliseconds(of.p50 * 1_000)} / ${milliseconds(of.p95 * 1_000)}`;
}

/** The processes of the last day, those that run at this moment first. */
const processList: List<GatewayProcess> = {
  kind: 'processes',
  caption: 'Processes',
  scrolls: true,
  keyOf: ({ id }) => id,
  columns: [
    {
      head: 'State',
      cell: ({ is_live, seen_at }) =>
        is_live ? (
          <Badge shape="good">Live</Badge>
        ) : (
          <>
            <Badge shape="stopped">Gone</Badge>
            <span class="under">
              last seen <Ago at={seen_at} />
            </span>
          </>
        ),
    },
    rowNames('Process', ({ hostname, pid, role, version }) => (
      <>
        <b>
          {hostname} {pid}
        </b>
        <span class="under">
          {role}, version {version}
        </span>
      </>
    )),
    numbers('Started', ({ started_at: at }) => <Ago at={at} />),
    numbers('In progress', ({ attempts_in_progress, relayed_calls_in_progress }) => (
      <>
        {counted(attempts_in_progress, 'attempt')}
        <span class="under">{counted(relayed_calls_in_progress, 'model call')}</span>
      </>
    )),
    numbers('Event loop lag', ({ event_loop_lag_seconds }) => seconds(event_loop_lag_seconds)),
    numbers('Clock skew', ({ clock_skew_seconds }) => seconds(clock_skew_seconds)),
    numbers('Last sweep', ({ last_sweep_at: at }) => <AgoOr at={at} />),
  ],
};

function seconds(n: number | null) {
  if (n === null) return <None />;
  return `${n < 0 ? '−' : ''}${milliseconds(Math.abs(n) * 1_000)}`;
}
