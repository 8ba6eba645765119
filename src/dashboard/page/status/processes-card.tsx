import type { GatewayProcess } from '../api/types.ts';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { Scroll } from '../elements/scroll.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { counted, milliseconds } from '../format/number.ts';
import { useApi } from '../session/session.ts';

function seconds(n: number | null) {
  if (n === null) return <span class="muted">–</span>;
  return `${n < 0 ? '−' : ''}${milliseconds(Math.abs(n) * 1_000)}`;
}

const agoOrNever = (at: string | null) => (at ? <Ago at={at} /> : <span class="muted">Never</span>);

const columns: readonly Column<GatewayProcess>[] = [
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
  {
    head: 'Process',
    class: 'cell-main',
    scopes: true,
    cell: ({ hostname, pid, role, version }) => (
      <>
        <b>
          {hostname} {pid}
        </b>
        <span class="under">
          {role}, version {version}
        </span>
      </>
    ),
  },
  { head: 'Started', name: 'Started', class: 'numbers', cell: ({ started_at }) => <Ago at={started_at} /> },
  {
    head: 'In progress',
    name: 'In progress',
    class: 'numbers',
    cell: ({ attempts_in_progress, relayed_calls_in_progress }) => (
      <>
        {counted(attempts_in_progress, 'attempt')}
        <span class="under">{counted(relayed_calls_in_progress, 'model call')}</span>
      </>
    ),
  },
  {
    head: 'Event loop lag',
    name: 'Event loop lag',
    class: 'numbers',
    cell: ({ event_loop_lag_seconds }) => seconds(event_loop_lag_seconds),
  },
  {
    head: 'Clock skew',
    name: 'Clock skew',
    class: 'numbers',
    cell: ({ clock_skew_seconds }) => seconds(clock_skew_seconds),
  },
  { head: 'Last sweep', name: 'Last sweep', class: 'numbers', cell: ({ last_sweep_at }) => agoOrNever(last_sweep_at) },
];

/** The processes of the last day, those that run at this moment first. */
export function ProcessesCard() {
  const api = useApi();
  const query = useQuery((signal) => api.listProcesses({ signal }), { key: 'processes', every: () => refreshEvery });
  return (
    <section class="card" aria-labelledby="processes">
      <div class="card-head">
        <h2 id="processes">Processes</h2>
        <span class="muted small">Of the last day</span>
      </div>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No processes" />
          ) : (
            <Scroll>
              <Table kind="processes" caption="Processes" columns={columns} rows={data} keyOf={({ id }) => id} />
            </Scroll>
          )
        }
      </Loaded>
    </section>
  );
}
