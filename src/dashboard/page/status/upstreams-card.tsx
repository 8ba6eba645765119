import type { UpstreamStatus } from '../api/types.ts';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { Scroll } from '../elements/scroll.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { count, milliseconds, percent } from '../format/number.ts';
import { useApi } from '../session/session.ts';

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
  if (of.p50 === null || of.p95 === null) return <span class="muted">–</span>;
  return `${milliseconds(of.p50 * 1_000)} / ${milliseconds(of.p95 * 1_000)}`;
}

const columns: readonly Column<UpstreamStatus>[] = [
  { head: 'Breaker', cell: Breaker },
  { head: 'Upstream', class: 'cell-main', scopes: true, cell: ({ name }) => <b>{name}</b> },
  { head: 'Requests', name: 'Requests', class: 'numbers', cell: ({ requests }) => count(requests) },
  { head: 'Errors', name: 'Errors', cell: Errors },
  {
    head: 'Latency p50 / p95',
    name: 'Latency p50 / p95',
    class: 'numbers',
    cell: ({ latency_seconds }) => times(latency_seconds),
  },
  {
    head: 'First byte p50 / p95',
    name: 'First byte p50 / p95',
    class: 'numbers',
    cell: ({ time_to_first_byte_seconds }) => times(time_to_first_byte_seconds),
  },
];

/** How the upstreams did in the last minutes. */
export function UpstreamsCard() {
  const api = useApi();
  const query = useQuery((signal) => api.listUpstreams({ signal }), { key: 'upstreams', every: () => refreshEvery });
  return (
    <section class="card" aria-labelledby="upstreams">
      <div class="card-head">
        <h2 id="upstreams">Upstreams</h2>
        <span class="muted small">The last five minutes, all live processes together</span>
      </div>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No upstreams" />
          ) : (
            <Scroll>
              <Table kind="upstreams" caption="Upstreams" columns={columns} rows={data} keyOf={({ name }) => name} />
            </Scroll>
          )
        }
      </Loaded>
    </section>
  );
}
