import './styles/main.css';
import { Component, type ComponentChildren, render } from 'preact';
import { KeysView, KeyView } from './account/keys-view.tsx';
import { StorageView } from './account/storage-view.tsx';
import { UsageView } from './account/usage-view.tsx';
import { href, type Route, useRoute } from './data/route.ts';
import { SessionContext, useSession } from './data/session.ts';
import { DeliveriesView } from './deliveries/deliveries-view.tsx';
import { DeliveryView } from './deliveries/delivery-view.tsx';
import { VerificationView } from './deliveries/verification-view.tsx';
import { Announcements } from './elements/announce.tsx';
import { Empty, Failure, Skeleton } from './elements/states.tsx';
import { Clock } from './elements/time.tsx';
import { Heading } from './elements/view.tsx';
import { EventTypesView } from './events/event-types.tsx';
import { EventsView, EventView } from './events/events-view.tsx';
import { AccountsView, AccountView } from './operator/accounts-view.tsx';
import { FailingWebhooksView } from './operator/failing-webhooks-view.tsx';
import { FindView } from './operator/find-view.tsx';
import { RefusalsView } from './operator/refusals-view.tsx';
import { StatusView } from './operator/status-view.tsx';
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

function View({ route }: { route: Route }) {
  const { scopes } = useSession();
  const [view = firstView(scopes) ?? 'webhooks', id] = route.path;
  const missing = missingScope(view, scopes);
  if (missing) return <NotAllowed scope={missing} />;
  switch (view) {
    case 'webhooks':
      return id ? <WebhookView id={id} route={route} /> : <WebhooksView route={route} />;
    case 'events':
      return id ? <EventView id={id} route={route} /> : <EventsView route={route} />;
    case 'deliveries':
      return id ? <DeliveryView id={id} /> : <DeliveriesView route={route} />;
    case 'event-types':
      return <EventTypesView />;
    case 'verification':
      return <VerificationView route={route} />;
    case 'keys':
      return id ? <KeyView id={id} /> : <KeysView route={route} />;
    case 'usage':
      return <UsageView route={route} />;
    case 'storage':
      return <StorageView route={route} />;
  }
  if (!scopes.includes('admin')) return <NotThere />;
  switch (view) {
    case 'status':
      return <StatusView />;
    case 'accounts':
      return id ? <AccountView userId={id} route={route} /> : <AccountsView route={route} />;
    case 'failing-webhooks':
      return <FailingWebhooksView route={route} />;
    case 'refusals':
      return <RefusalsView route={route} />;
    case 'find':
      return <FindView id={id ?? ''} />;
    default:
      return <NotThere />;
  }
}

function NotThere() {
  return (
    <>
      <Heading title="Not here" />
      <Empty title="There is no such page">
        <a href={href(['webhooks'])}>To the webhooks</a>
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
class Boundary extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <Empty title="This view has failed" text="The page and the gateway may be of two versions.">
        <button type="button" class="button button-plain" onClick={() => window.location.reload()}>
          Reload the page
        </button>
      </Empty>
    );
  }
}

const root = document.getElementById('app');
if (root) {
  showChosenTheme();
  render(<App hostSessions={root.dataset.signIn === 'session'} />, root);
}
