import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { Loaded } from '../elements/states.tsx';
import { count } from '../format/number.ts';
import { useApi } from '../session/session.ts';

/** What is left; nothing where the gateway has no credits. */
export function CreditsCard() {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveCredits({ signal }), { key: 'credits', every: () => refreshEvery });
  if (query.error?.status === 404) return null;
  return (
    <section class="card" aria-labelledby="credits">
      <div class="card-head">
        <h2 id="credits">Credits</h2>
      </div>
      <div class="card-body">
        <Loaded query={query} lines={1}>
          {({ credits_remaining, low_threshold }) => (
            <p class="big numbers">
              {count(credits_remaining)} <span class="muted small">left</span>{' '}
              {low_threshold !== null && credits_remaining < low_threshold && <Badge shape="bad">Low</Badge>}
            </p>
          )}
        </Loaded>
      </div>
    </section>
  );
}
