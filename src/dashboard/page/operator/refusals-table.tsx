import type { Refusal, RefusalCount } from '../api/types.ts';
import { type Column, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { count } from '../format/number.ts';
import { href } from '../routing/route.ts';

const keyOf = ({ user_id, code }: Refusal) => JSON.stringify([user_id, code]);

/** The refusals of several hours together, the most frequent first; the hour of each is its last one. */
function sumOf(refusals: readonly Refusal[]): Refusal[] {
  const sums = new Map<string, Refusal>();
  for (const refused of refusals) {
    const sum = sums.get(keyOf(refused));
    const hour = sum && sum.hour > refused.hour ? sum.hour : refused.hour;
    sums.set(keyOf(refused), { ...refused, hour, count: refused.count + (sum?.count ?? 0) });
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}

const code: Column<RefusalCount> = {
  head: 'Error code',
  class: 'cell-main',
  scopes: true,
  cell: (refused) => <code>{refused.code}</code>,
};
const times: Column<RefusalCount> = {
  head: 'Times',
  headClass: 'cell-end',
  name: 'Times',
  class: 'numbers cell-end',
  cell: (refused) => count(refused.count),
};
const account: Column<Refusal> = {
  head: 'Account',
  name: 'Account',
  cell: ({ user_id }) =>
    user_id === null ? (
      <span class="muted">Not known</span>
    ) : (
      <a class="mono" href={href(['accounts', user_id])}>
        {user_id}
      </a>
    ),
};
const lastHour: Column<Refusal> = {
  head: 'Last in the hour from',
  name: 'Last in the hour from',
  class: 'numbers',
  cell: ({ hour }) => <Ago at={hour} />,
};

/** What was refused and why, by account and error code. */
export function RefusalsTable({ refusals }: { refusals: readonly Refusal[] }) {
  return (
    <Table
      kind="refusals"
      caption="Refusal, the most frequent first"
      columns={[code, account, lastHour, times]}
      rows={sumOf(refusals)}
      keyOf={keyOf}
    />
  );
}

/** What was refused to one account. */
export function RefusedCodes({ refusals }: { refusals: readonly RefusalCount[] }) {
  return (
    <Table
      kind="refusals"
      caption="Refusal, the most frequent first"
      columns={[code, times]}
      rows={refusals}
      keyOf={(refused) => refused.code}
    />
  );
}
