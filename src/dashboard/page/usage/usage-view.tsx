import { useQuery } from '../data/use-query.ts';
import { Empty, Loaded } from '../elements/states.tsx';
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
              <table class="list usage">
                <thead>
                  <tr>
                    <th scope="col">Model</th>
                    <th scope="col" class="cell-end">
                      Requests
                    </th>
                    <th scope="col" class="cell-end">
                      Tokens in
                    </th>
                    <th scope="col" class="cell-end">
                      Tokens out
                    </th>
                    <th scope="col" class="cell-end">
                      Images
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {data.map(({ model, requests, input_tokens, output_tokens, images }) => (
                    <tr key={model}>
                      <th scope="row" class="cell-main">
                        <code>{model}</code>
                      </th>
                      <td class="numbers cell-end">
                        <span class="cell-name">Requests </span>
                        {count(requests)}
                      </td>
                      <td class="numbers cell-end">
                        <span class="cell-name">Tokens in </span>
                        {count(input_tokens)}
                      </td>
                      <td class="numbers cell-end">
                        <span class="cell-name">Tokens out </span>
                        {count(output_tokens)}
                      </td>
                      <td class="numbers cell-end">
                        <span class="cell-name">Images </span>
                        {count(images)}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
    </>
  );
}
