import { Clock } from './data/clock.tsx';
import { DeliveriesView } from './deliveries/deliveries-view.tsx';
import { DeliveryView } from './deliveries/delivery-view.tsx';
import { Empty, Failure, Skeleton } from './elements/states.tsx';
import { EventTypesView } from './event-types/event-types-view.tsx';
import { EventView } from './events/event-view.tsx';
import { EventsView } from './events/events-view.tsx';
import { KeysView } from './keys/keys-view.tsx';
import { OperatorView } from './operator/operator-view.tsx';
import { href, type Route, useRoute } from './routing/route.ts';
import { KeyView } from './search/key-view.tsx';
import { SessionContext, useSession } from './session/session.ts';
import { SignInView } from './session/sign-in.tsx';
import { useSignIn } from './session/use-sign-in.ts';
import { Announcements } from './shell/announce.tsx';
import { Boundary } from './shell/boundary.tsx';
import { Heading } from './shell/heading.tsx';
import { Shell } from './shell/shell.tsx';
import { firstView, missingScope } from './shell/views.ts';
import { UsageView } from './usage/usage-view.tsx';
import { VerificationView } from './verification/verification-view.tsx';
import { WebhookView } from './webhooks/webhook-view.tsx';
import { WebhooksView } from './webhooks/webhooks-view.tsx';

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
      <Empty title={`This needs the scope ${scope}`}>
        <p class="muted">Sign in with a key that has it. Who has the scope keys creates one under API keys.</p>
      </Empty>
    </>
  );
}

function View({ route }: { route: Route }) {
  const { scopes } = useSession();
  const [view = firstView(scopes) ?? 'webhooks', id] = route.path;
  const missing = missingScope(view, scopes);
  if (missing) return <NotAllowed scope={missing} />;
  // a separate key for each: another id is another view, which starts anew
  switch (view) {
    case 'webhooks':
      return id ? <WebhookView key={id} id={id} route={route} /> : <WebhooksView key="list" route={route} />;
    case 'events':
      return id ? <EventView key={id} id={id} route={route} /> : <EventsView key="list" route={route} />;
    case 'deliveries':
      return id ? <DeliveryView key={id} id={id} /> : <DeliveriesView key="list" route={route} />;
    case 'event-types':
      return <EventTypesView />;
    case 'verification':
      return <VerificationView route={route} />;
    case 'keys':
      return id ? <KeyView key={id} id={id} /> : <KeysView key="list" route={route} />;
    case 'usage':
      return <UsageView route={route} />;
    default:
      return scopes.includes('admin') ? (
        <OperatorView view={view} id={id} route={route} otherwise={<NotThere />} />
      ) : (
        <NotThere />
      );
  }
}

/** @param hostSessions whether the host may know who is signed in */
export function App({ hostSessions }: { hostSessions: boolean }) {
  const { state, withKey, again } = useSignIn(hostSessions);
  const route = useRoute();
  switch (state.kind) {
    case 'asking':
      return (
        <main class="sign-in">
          <Skeleton lines={3} />
        </main>
      );
    case 'unreachable':
      return (
        <main class="sign-in">
          <Failure error={state.error} again={again} />
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
                <Boundary key={route.path.join('/')}>
                  <View route={route} />
                </Boundary>
              </Shell>
            </Announcements>
          </Clock>
        </SessionContext.Provider>
      );
  }
}
