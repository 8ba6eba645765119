import type { ComponentChildren } from 'preact';
import { AccountView } from '../accounts/account-view.tsx';
import { AccountsView } from '../accounts/accounts-view.tsx';
import type { Route } from '../routing/route.ts';
import { StatusView } from '../status/status-view.tsx';
import { FailingWebhooksView } from './failing-webhooks-view.tsx';
import { FindView } from './find-view.tsx';
import { RefusalsView } from './refusals-view.tsx';

interface Props {
  readonly view: string;
  readonly id: string | undefined;
  readonly route: Route;
  /** Shown for any other view. */
  readonly otherwise: ComponentChildren;
}

/** The views of all accounts. They need the scope `admin`. */
export function OperatorView({ view, id, route, otherwise }: Props) {
  switch (view) {
    case 'status':
      return <StatusView />;
    case 'accounts':
      return id ? <AccountView key={id} userId={id} route={route} /> : <AccountsView key="list" route={route} />;
    case 'failing-webhooks':
      return <FailingWebhooksView route={route} />;
    case 'refusals':
      return <RefusalsView route={route} />;
    case 'find':
      return <FindView key={id} id={id ?? ''} />;
    default:
      return <>{otherwise}</>;
  }
}
