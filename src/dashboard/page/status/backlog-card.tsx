import type { Backlog } from '../api/types.ts';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { Facts } from '../elements/facts.tsx';
import { Loaded } from '../elements/states.tsx';
import { count } from '../format/number.ts';
import { span } from '../format/time.ts';
import { useApi } from '../session/session.ts';

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

function Shown({ backlog }: { backlog: Backlog }) {
  const { due, due_is_more, scheduled, scheduled_is_more, fan_outs_pending, in_progress } = backlog;
  const orMore = (n: number, isMore: boolean) => `${count(n)}${isMore ? ' or more' : ''}`;
  return (
    <Facts
      facts={[
        ['Deliveries due', orMore(due, due_is_more)],
        ['Oldest due for', <Waiting seconds={backlog.oldest_due_seconds} none={backlog.oldest_due_at === null} />],
        ['Being sent', count(in_progress)],
        ['Due later', orMore(scheduled, scheduled_is_more)],
        ['Events in fan-out', orMore(fan_outs_pending, backlog.fan_outs_is_more)],
        ['Oldest in fan-out for', <Waiting seconds={backlog.oldest_fan_out_seconds} none={fan_outs_pending === 0} />],
      ]}
    />
  );
}

/** What waits to be sent. */
export function BacklogCard() {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveBacklog({ signal }), { key: 'backlog', every: () => refreshEvery });
  return (
    <section class="card" aria-labelledby="backlog">
      <div class="card-head">
        <h2 id="backlog">Backlog</h2>
      </div>
      <div class="card-body">
        <Loaded query={query} lines={2}>
          {(backlog) => <Shown backlog={backlog} />}
        </Loaded>
      </div>
    </section>
  );
}
