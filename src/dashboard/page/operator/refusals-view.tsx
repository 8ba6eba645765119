import { refreshEvery, useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { Refusal, RefusalCount } from '../data/types.ts';
import { Choice, Filters, TextFilter } from '../elements/filters.tsx';
import { count } from '../elements/format.ts';
import { ErrorCode, Loaded } from '../elements/states.tsx';
import { type Column, endNumbers, type List, numbers, rowNames, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { Card, Heading } from '../elements/view.tsx';

const ranges = [
  { value: '1', name: 'This hour (UTC)' },
  { value: '168', name: 'Last 7 days' },
];

/** What the gateway refused and why, of all accounts or of one. */
export function RefusalsView({ route }: { route: Route }) {
  const { hours = 24, user } = route.query;
  const filter = { hours: Number(hours), user_id: user };
  const query = useRead('/v1/admin/refusals', { query: filter }, refreshEvery);
  return (
    <>
      <Heading title="Refusals" />
      <Filters>
        <Choice route={route} name="hours" label="Time" any="Last 24 hours" options={ranges} />
        <TextFilter route={route} name="user" label="Account" />
      </Filters>
      <Card label="Refusals">
        <Loaded query={query}>
          {({ data, has_more }) => (
            <>
              {has_more && <p class="note">Earlier hours are left out: choose a shorter time or one account.</p>}
              <Table
                {...refusedCodes}
                columns={[code, account, lastHour, times]}
                rows={sumOf(data)}
                keyOf={keyOf}
                empty="Nothing was refused"
              />
            </>
          )}
        </Loaded>
      </Card>
    </>
  );
}

const code = rowNames<RefusalCount>('Error code', (refused) => <ErrorCode code={refused.code} />);
const times: Column<RefusalCount> = { ...endNumbers('Times', (refused) => count(refused.count)), name: true };

/** What was refused, of one account. */
export const refusedCodes: List<RefusalCount> = {
  kind: 'refusals',
  caption: 'Refusal, the most frequent first',
  columns: [code, times],
  keyOf: (refused) => refused.code,
};

const account: Column<Refusal> = {
  head: 'Account',
  name: true,
  cell: ({ user_id }) =>
    user_id === null ? (
      <span class="muted">Not known</span>
    ) : (
      <a class="mono" href={href(['accounts', user_id])}>
        {user_id}
      </a>
    ),
};
const lastHour = numbers<Refusal>('Last in the hour from', ({ hour }) => <Ago at={hour} />);

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
