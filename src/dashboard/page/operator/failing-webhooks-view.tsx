import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Tabs } from '../elements/inputs/choice.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { WebhookHealthTable } from './webhook-health-table.tsx';

/** The webhooks of every account that fail, or that were disabled because they did. */
export function FailingWebhooksView({ route }: { route: Route }) {
  const api = useApi();
  const { after } = route.query;
  const state = route.query.state === 'disabled' ? 'disabled' : 'failing';
  const query = useQuery((signal) => api.listFailingWebhooks({ state, limit: 50, after }, { signal }), {
    key: `webhooks ${state} ${after}`,
    every: () => refreshEvery,
  });
  return (
    <>
      <Heading title="Failing webhooks" />
      <search class="filters" aria-label="Choose what is shown">
        <Tabs
          route={route}
          name="state"
          label="State"
          any="Failing"
          options={[{ value: 'disabled', name: 'Disabled' }]}
        />
      </search>
      <section class="card" aria-label="Webhooks">
        <Loaded query={query}>
          {({ data, has_more }) =>
            data.length === 0 ? (
              <Empty title={state === 'failing' ? 'No webhook fails' : 'No webhook is disabled'} />
            ) : (
              <>
                <WebhookHealthTable webhooks={data} byAccount />
                <Pager
                  route={route}
                  next={has_more ? data.at(-1)?.id : undefined}
                  names={{ first: 'First', next: 'Next' }}
                />
              </>
            )
          }
        </Loaded>
      </section>
    </>
  );
}
