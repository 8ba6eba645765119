import './styles/main.css';
import { type ComponentChildren, type JSX, render } from 'preact';
import { useErrorBoundary } from 'preact/hooks';
import { KeysView, KeyView } from './account/keys-view.tsx';
import { StorageView } from './account/storage-view.tsx';
import { UsageView } from './account/usage-view.tsx';
import { gatewaySettings } from './data/api.ts';
import { href, type Route, useRoute } from './data/route.ts';
import { SessionContext, useSession } from './data/session.ts';
import { DeliveriesView } from './deliveries/deliveries-view.tsx';
import { DeliveryView } from './deliveries/delivery-view.tsx';
import { VerificationView } from './deliveries/verification-view.tsx';
import { Announcements } from './elements/announce.tsx';
import { Button } from './elements/button.tsx';
import { Empty, Failure, Skeleton } from './elements/states.tsx';
import { Clock } from './elements/time.tsx';
import { Heading } from './elements/view.tsx';
import { ErrorsView } from './errors/errors-view.tsx';
import { EventTypesView } from './events/event-types.tsx';
import { EventsView, EventView } from './events/events-view.tsx';
import { AccountsView, AccountView } from './operator/accounts-view.tsx';
import { FailingWebhooksView } from './operator/failing-webhooks-view.tsx';
import { FindView } from './operator/find-view.tsx';
import { RefusalsView } from './operator/refusals-view.tsx';
import { StatusView } from './operator/status-view.tsx';
import { OverviewView } from './overview/overview-view.tsx';
import { Shell, showChosenTheme } from './shell/shell.tsx';
import { SignInView, useSignIn } from './shell/sign-in.tsx';
import { firstView, missingScope } from './shell/views.ts';
import { WebhookView } from './webhooks/webhook-view.tsx';
import { WebhooksView } from './webhooks/webhooks-view.tsx';

/** @param hostSessions whether the host may know who is signed in */
function App({ hostSessions }: { hostSessions: boolean }) {
  const { state, withKey, again } = useSignIn(hostSessions);
  const route = useRoute();
  switch (state.kind) {
    case 'asking':
    case 'unreachable':
      return (
        <main class="sign-in">
          {state.kind === 'asking' ? <Skeleton lines={3} /> : <Failure error={state.error} again={again} />}
        </main>
      );
    case 'signed_out':
      return <SignInView hostSessions={hostSessions} message={state.message} onKey={withKey} />;
    case 'signed_in':
      return (
        <SessionContext.Provider value={state.session}>
          <Clock>
            <Announcements>
              <Shell view={route.path[0] ?? firstView(state.session.scopes) ?? 'webhooks'}>
                {/* another id is another view, which starts anew */}
                <Boundary key={href(route.path)}>
                  <View route={route} />
                </Boundary>
              </Shell>
            </Announcements>
          </Clock>
        </SessionContext.Provider>
      );
  }
}

type Show = (route: Route, id: string | undefined) => JSX.Element;

const accountViews = new Map<string, Show>([
  ['overview', () => <OverviewView />],
  ['webhooks', (route, id) => (id ? <WebhookView id={id} route={route} /> : <WebhooksView route={route} />)],
  ['events', (route, id) => (id ? <EventView id={id} route={route} /> : <EventsView route={route} />)],
  ['deliveries', (route, id) => (id ? <DeliveryView id={id} /> : <DeliveriesView route={route} />)],
  ['event-types', () => <EventTypesView />],
  ['verification', (route) => <VerificationView route={route} />],
  ['keys', (route, id) => (id ? <KeyView id={id} /> : <KeysView route={route} />)],
  ['usage', (route) => <UsageView route={route} />],
  ['storage', (route) => <StorageView route={route} />],
  ['errors', (_route, code) => <ErrorsView code={code} />],
]);

const operatorViews = new Map<string, Show>([
  ['status', () => <StatusView />],
  ['accounts', (route, id) => (id ? <AccountView userId={id} route={route} /> : <AccountsView route={route} />)],
  ['failing-webhooks', (route) => <FailingWebhooksView route={route} />],
  ['refusals', (route) => <RefusalsView route={route} />],
  ['find', (_route, id) => <FindView id={id ?? ''} />],
]);

function View({ route }: { route: Route }) {
  const { scopes } = useSession();
  const [view = firstView(scopes) ?? 'webhooks', id] = route.path;
  const missing = missingScope(view, scopes);
  if (missing) return <NotAllowed scope={missing} />;
  const show = accountViews.get(view) ?? (scopes.includes('admin') ? operatorViews.get(view) : undefined);
  return show ? show(route, id) : <NotThere />;
}

function NotThere() {
  return (
    <>
      <Heading title="Not here" />
      <Empty title="There is no such page">
        <a href={href([])}>To the first page</a>
      </Empty>
    </>
  );
}

function NotAllowed({ scope }: { scope: string }) {
  return (
    <>
      <Heading title="Not for this sign-in" />
      <Empty
        title={`This needs the scope ${scope}`}
        text="Sign in with a key that has it. Who has the scope keys creates one under API keys."
      />
    </>
  );
}

/** Keeps the rest of the page when a view fails. */
function Boundary({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary((thrown) => console.error(thrown));
  if (error === undefined) return <>{children}</>;
  return (
    <Empty title="This view has failed" text="The page and the gateway may be of two versions.">
      <Button onClick={() => window.location.reload()}>Reload the page</Button>
    </Empty>
  );
}

const root = document.getElementById('app');
if (root) {
  showChosenTheme();
  render(<App hostSessions={gatewaySettings().hasSessions} />, root);
}
