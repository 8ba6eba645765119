import { useState } from 'preact/hooks';
import { PlusIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { Heading } from '../shell/heading.tsx';
import { CreateWebhook } from './form/create-webhook.tsx';
import { useWebhooks } from './use-webhooks.ts';
import { WebhookTable } from './webhook-table.tsx';

/** The account's webhooks, with their health at a glance. */
export function WebhooksView({ route }: { route: Route }) {
  const query = useWebhooks(route.query.after);
  const [adding, setAdding] = useState(false);
  const add = (
    <Button kind="primary" onClick={() => setAdding(true)}>
      <PlusIcon />
      Add webhook
    </Button>
  );
  return (
    <>
      <Heading title="Webhooks" actions={add} />
      <section class="card" aria-label="Webhooks">
        <Loaded query={query}>
          {({ data, has_more }) =>
            data.length === 0 ? (
              <Empty title="No webhooks yet">
                <p class="muted">
                  A webhook is a URL of yours that gets events about this account at once: payments, credits, keys and
                  limits. What it misses is sent again, up to six times.
                </p>
                <Button onClick={() => setAdding(true)}>Add the first one</Button>
              </Empty>
            ) : (
              <>
                <WebhookTable webhooks={data} />
                <Pager route={route} next={has_more ? data.at(-1)?.id : undefined} />
              </>
            )
          }
        </Loaded>
      </section>
      {adding && (
        <CreateWebhook
          onClose={() => {
            setAdding(false);
            query.reload();
          }}
        />
      )}
    </>
  );
}
