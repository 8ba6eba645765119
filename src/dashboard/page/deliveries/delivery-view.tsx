import type { ComponentChildren } from 'preact';
import { dataOf } from '../data/api.ts';
import { type Query, useAction } from '../data/query.ts';
import { href } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { Delivery, DeliveryDetails } from '../data/types.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { StatusBadge, Tag } from '../elements/badge.tsx';
import { Button, Id } from '../elements/button.tsx';
import { counted } from '../elements/format.ts';
import { AgainIcon } from '../elements/icons.tsx';
import { Failure, Loaded } from '../elements/states.tsx';
import { Countdown, Time, useNow } from '../elements/time.tsx';
import { Card, Code, Facts, Heading } from '../elements/view.tsx';
import { AttemptExchange, AttemptSummary, deliveryStatus, outcomeWords, succeeded, useDelivery } from './delivery.tsx';

/** One delivery: what was tried, what comes next, and why. */
export function DeliveryView({ id }: { id: string }) {
  const query = useDelivery(id);
  return (
    <Loaded query={query} lines={8} head={<Heading title="Delivery" up="deliveries" />}>
      {(delivery) => <Opened delivery={delivery} query={query} />}
    </Loaded>
  );
}

function Opened({ delivery, query }: { delivery: DeliveryDetails; query: Query<DeliveryDetails> }) {
  const api = useApi();
  const announce = useAnnounce();
  const { id, type, test, url, in_flight } = delivery;
  const resend = useAction(async () => {
    const sent = await dataOf(api.POST('/v1/deliveries/{id}/resend', { params: { path: { id } } }));
    query.set(sent);
    const attempt = sent.attempts.at(-1);
    announce(
      sent.in_flight || !attempt ? 'Sent; the receiver has not answered yet' : `Sent again: ${outcomeWords(attempt)}`,
    );
  });
  const resendButton = (
    <Button
      kind="primary"
      busy={resend.running}
      disabledReason={
        url === null ? 'Its webhook has been deleted' : in_flight && 'An attempt is under way: wait for its end'
      }
      onClick={() => void resend.run()}
    >
      <AgainIcon />
      {resend.running ? 'Sending…' : 'Send again'}
    </Button>
  );
  const status = deliveryStatus(delivery);
  return (
    <>
      <Heading title={type} up="deliveries" actions={resendButton}>
        {type} <StatusBadge status={status} />
        {test && <Tag>test</Tag>}
      </Heading>
      {resend.error && <Failure error={resend.error} />}
      <div class={`delivery-summary mark-${status.shape}`} aria-live="polite">
        <DeliverySummary delivery={delivery} />
      </div>
      <DeliveryFacts delivery={delivery} />
      <div class="columns">
        <Card id="attempts" title="Attempts">
          <Timeline delivery={delivery} />
        </Card>
        <div class="sticky">
          <Code title="Body" text={delivery.body} />
        </div>
      </div>
    </>
  );
}

/** The state of a delivery, its reason if it needs one, and what happens next. */
function DeliverySummary({ delivery }: { delivery: DeliveryDetails }) {
  const { state, in_flight, attempts, next_attempt_at, attempts_made, max_attempts } = delivery;
  const canceled = delivery.reason === null ? 'It was canceled.' : reasonWords[delivery.reason];
  const reason = attempts.findLast((attempt) => !succeeded(attempt))?.explanation;
  const manual = manualWords(delivery);
  if (in_flight) return <Summary status="An attempt is under way at this moment." />;
  switch (state) {
    case 'delivered': {
      const after = `Delivered after ${counted(attempts.length, 'attempt')}${manual && `, ${manual}`}.`;
      return <Summary status={attempts_made === 0 ? 'Delivered by a manual resend.' : after} />;
    }
    case 'canceled':
      return <Summary status="Canceled." reason={canceled} next="No further attempt follows." />;
    case 'failed': {
      const all = max_attempts === 1 ? 'The one attempt' : `All ${attempts_made} attempts`;
      const next = 'No further attempt follows. Once the receiver works, send it again.';
      return <Summary status={`${all} failed${manual && `; ${manual}`}.`} reason={reason} next={next} />;
    }
    case 'pending': {
      const due = next_attempt_at ? <Countdown to={next_attempt_at} /> : 'soon';
      if (attempts_made === 0) return <Summary status={<>The first attempt is due {due}.</>} />;
      const failed = `${attempts_made} of ${max_attempts} attempts failed${manual && ` (${manual})`}`;
      const status = (
        <>
          {failed}; the next is due {due}.
        </>
      );
      return <Summary status={status} reason={reason} />;
    }
  }
}

interface SummaryProps {
  readonly status: ComponentChildren;
  readonly reason?: string | null | undefined;
  readonly next?: string;
}

function Summary({ status, reason, next }: SummaryProps) {
  return (
    <>
      <p>
        <b>{status}</b>
      </p>
      {reason && <p>{reason}</p>}
      {next && <p class="muted">{next}</p>}
    </>
  );
}

const reasonWords: Readonly<Record<NonNullable<Delivery['reason']>, string>> = {
  webhook_deleted: 'The webhook was deleted before this was delivered.',
  webhook_inactive: 'The webhook was paused when the next attempt was due.',
  unsubscribed: 'The webhook was no longer subscribed to this type when the next attempt was due.',
  event_deleted: 'The event expired before this was delivered.',
};

/** `2 manual`: attempts outside the schedule; empty if there are none. */
function manualWords({ attempts }: Pick<DeliveryDetails, 'attempts'>): string {
  const n = attempts.filter(({ manual }) => manual).length;
  return n === 0 ? '' : `${n} manual`;
}

function DeliveryFacts({ delivery }: { delivery: DeliveryDetails }) {
  const { id, event_id, webhook_id, url, created_at, ended_at, attempts_made, max_attempts } = delivery;
  return (
    <Facts
      facts={[
        ['Webhook', <a href={href(['webhooks', webhook_id])}>{url ?? `${webhook_id} (deleted)`}</a>],
        [
          'Event',
          <a href={href(['events', event_id])}>
            <code>{event_id}</code>
          </a>,
        ],
        ['Delivery', <Id id={id} what="delivery id" />],
        ['Attempts', [`${attempts_made} of ${max_attempts}`, manualWords(delivery)].filter(Boolean).join(', ')],
        ['Created', <Time at={created_at} />],
        ['Ended', ended_at ? <Time at={ended_at} /> : 'Not yet'],
      ]}
    />
  );
}

/** What was, what is next and what comes after, should that fail too. */
function Timeline({ delivery }: { delivery: DeliveryDetails }) {
  const { in_flight, state, attempts_made, max_attempts } = delivery;
  const now = useNow();
  const attempts = delivery.attempts.toSorted((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
  // what is due by now and in flight is under way
  const schedule = delivery.schedule.filter(({ due_at }) => !(in_flight && Date.parse(due_at) <= now));
  const first = attempts_made + 1;
  return (
    <ol class="timeline">
      {attempts.map((attempt, i) => (
        <Moment
          key={attempt.started_at}
          mark={succeeded(attempt) ? 'mark-good' : 'mark-bad'}
          title={attempt.manual ? 'Manual attempt' : `Attempt ${attempt.number}`}
          at={attempt.started_at}
        >
          <AttemptSummary attempt={attempt} after={attempts[i - 1]} />
          <details open={i === attempts.length - 1}>
            <summary>Request and response</summary>
            <AttemptExchange attempt={attempt} />
          </details>
        </Moment>
      ))}
      {in_flight && (
        <li class="moment moment-sending mark-waiting">
          <h3>Sending now</h3>
          <p class="muted">The receiver has up to 30 seconds to answer.</p>
        </li>
      )}
      {schedule.map(({ number, due_at }, i) => (
        <Coming
          key={number}
          next={i === 0 && !in_flight}
          title={`Attempt ${number}${number === max_attempts ? ', the last' : ''}`}
          at={due_at}
        />
      ))}
      {state !== 'pending' && !in_flight && first <= max_attempts && (
        <li class="moment moment-later">
          <h3 class="muted">
            {first === max_attempts
              ? `Attempt ${first} is not made`
              : `Attempts ${first} to ${max_attempts} are not made`}
          </h3>
        </li>
      )}
    </ol>
  );
}

interface MomentProps {
  /** Its class, which has its colour. */
  readonly mark: string;
  readonly title: string;
  readonly at: string;
  readonly children: ComponentChildren;
}

function Moment({ mark, title, at, children }: MomentProps) {
  return (
    <li class={`moment ${mark}`}>
      <div class="wrap spread baseline">
        <h3>{title}</h3>
        <span class="muted small">
          <Time at={at} />
        </span>
      </div>
      {children}
    </li>
  );
}

function Coming({ next, title, at }: { next: boolean; title: string; at: string }) {
  return (
    <Moment mark={next ? 'mark-waiting' : 'moment-later'} title={title} at={at}>
      <p>
        {next ? (
          <>
            Due <Countdown to={at} />
          </>
        ) : (
          <span class="muted">If the ones before fail at once</span>
        )}
      </p>
    </Moment>
  );
}
