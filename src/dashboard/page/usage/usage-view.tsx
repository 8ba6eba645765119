import type { UsageLine } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { Empty, Loaded } from '../elements/states.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { count } from '../format/number.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { CreditsCard } from './credits-card.tsx';

const days = 30;
/** Milliseconds. */
const refreshEvery = 10_000;

function dayBefore(n: number): string {
  return new Date(Date.now() - n * 86_400_000).toISOString().slice(0, 10);
}

function numbers(name: string, of: (used: UsageLine) => number): Column<UsageLine> {
  return { head: name, headClass: 'cell-end', name, class: 'numbers cell-end', cell: (used) => count(of(used)) };
}

const columns: readonly Column<UsageLine>[] = [
  { head: 'Model', scopes: true, class: 'cell-main', cell: ({ model }) => <code>{model}</code> },
  numbers('Requests', ({ requests }) => requests),
  numbers('Tokens in', ({ input_tokens }) => input_tokens),
  numbers('Tokens out', ({ output_tokens }) => output_tokens),
  numbers('Images', ({ images }) => images),
];

/** Shown where there is audio that is not counted in tokens. */
const audioColumns: readonly Column<UsageLine>[] = [
  numbers('Seconds', ({ seconds }) => seconds),
  numbers('Characters', ({ characters }) => characters),
];

function columnsOf(lines: readonly UsageLine[]): readonly Column<UsageLine>[] {
  const hasAudio = lines.some(({ seconds, characters }) => seconds + characters > 0);
  return hasAudio ? [...columns, ...audioColumns] : columns;
}

/** What model calls used, and what is left. */
export function UsageView() {
  const api = useApi();
  const [from, to] = [dayBefore(days - 1), dayBefore(0)];
  const query = useQuery((signal) => api.retrieveUsage({ from, to, group_by: 'model' }, { signal }), {
    key: `${from} ${to}`,
    every: () => refreshEvery,
  });
  return (
    <>
      <Heading title="Usage" />
      <CreditsCard />
      <section class="card" aria-labelledby="by-model">
        <div class="card-head">
          <h2 id="by-model">By model, last {days} days</h2>
          <span class="muted small">
            {from} to {to}, UTC
          </span>
        </div>
        <Loaded query={query}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="Nothing used yet">
                <p class="muted">Each model call is counted here a moment after it has ended.</p>
              </Empty>
            ) : (
              <Table kind="usage" columns={columnsOf(data)} rows={data} keyOf={({ model }) => model ?? ''} />
            )
          }
        </Loaded>
      </section>
    </>
  );
}
