import type { ComponentChildren } from 'preact';
import { dataOf } from '../data/api.ts';
import { type Query, useAction } from '../data/query.ts';
import { href } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { Attempt, Delivery, DeliveryDetails } from '../data/types.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { StatusBadge, Tag } from '../elements/badge.tsx';
import { Button, Id } from '../elements/button.tsx';
import { counted } from '../elements/format.ts';
import { AgainIcon } from '../elements/icons.tsx';
import { Failure, Loaded } from '../elements/states.tsx';
import { Countdown, Time, useNow } from '../elements/time.tsx';
import { Card, Code, Facts, Heading } from '../elements/view.tsx';
import {
  AttemptExchange,
  type AttemptProps,
  AttemptSummary,
  deliveryStatus,
  outcomeWords,
  succeeded,
  useDelivery,
} from './delivery.tsx';

const up = { name: 'Deliveries', href: href(['deliveries']) };

/** One delivery: what was tried, what comes next, and why. */
export function DeliveryView({ id }: { id: string }) {
  const query = useDelivery(id);
  return (
    <>
      {!query.data && <Heading title="Delivery" up={up} />}
      <Loaded query={query} lines={8}>
        {(delivery) => <Opened delivery={delivery} query={query} />}
      </Loaded>
    </>
  );
}

function Opened({ delivery, query }: { delivery: DeliveryDetails; query: Query<DeliveryDetails> }) {
  const resend = useResend(delivery, query.set);
  return (
    <>
      <Heading title={delivery.type} up={up} actions={resend.button}>
        {delivery.type} <StatusBadge status={deliveryStatus(delivery)} />
        {delivery.test && <Tag>test</Tag>}
      </Heading>
      {resend.failure}
      <div class={`delivery-summary delivery-summary-${delivery.state}`} aria-live="polite">
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

/** Makes one more attempt now and shows its result: a button, and why it failed. */
function useResend(delivery: DeliveryDetails, onSent: (delivery: DeliveryDetails) => void) {
  const api = useApi();
  const announce = useAnnounce();
  const resend = useAction(async () => {
    const sent = await dataOf(api.POST('/v1/deliveries/{id}/resend', { params: { path: { id: delivery.id } } }));
    onSent(sent);
    const attempt = sent.attempts.at(-1);
    announce(
      sent.in_flight || !attempt ? 'Sent; the receiver has not answered yet' : `Sent again: ${outcomeWords(attempt)}`,
    );
  });
  return {
    button: (
      <Button
        kind="primary"
        busy={resend.running}
        disabledReason={disabledReason(delivery)}
        onClick={() => void resend.run()}
      >
        <AgainIcon />
        {resend.running ? 'Sending…' : 'Send again'}
      </Button>
    ),
    failure: resend.error && <Failure error={resend.error} />,
  };
}

/** Why a delivery cannot be sent again at present. */
function disabledReason({ in_flight, url }: DeliveryDetails): string | undefined {
  if (url === null) return 'Its webhook has been deleted';
  return in_flight ? 'An attempt is under way: wait for its end' : undefined;
}

function DeliverySummary({ delivery }: { delivery: DeliveryDetails }) {
  const { status, reason, next } = partsOf(delivery);
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

/** The state of a delivery, its reason if it needs one, and what happens next. */
interface Parts {
  readonly status: ComponentChildren;
  readonly reason?: string | null | undefined;
  readonly next?: string;
}

function partsOf(delivery: DeliveryDetails): Parts {
  const { state, in_flight, attempts, next_attempt_at, attempts_made, max_attempts } = delivery;
  const reason = attempts.findLast((attempt) => !succeeded(attempt))?.explanation;
  const manual = manualWords(delivery);
  if (in_flight) return { status: 'An attempt is under way at this moment.' };
  switch (state) {
    case 'delivered':
      return {
        status:
          attempts_made === 0
            ? 'Delivered by a manual resend.'
            : `Delivered after ${counted(attempts.length, 'attempt')}${manual && `, ${manual}`}.`,
      };
    case 'canceled':
      return { status: 'Canceled.', reason: reasonOf(delivery), next: 'No further attempt follows.' };
    case 'failed':
      return {
        status: `${max_attempts === 1 ? 'The one attempt' : `All ${attempts_made} attempts`} failed${manual && `; ${manual}`}.`,
        reason,
        next: 'No further attempt follows. Once the receiver works, send it again.',
      };
    case 'pending': {
      const due = next_attempt_at ? <Countdown to={next_attempt_at} /> : 'soon';
      if (attempts_made === 0) return { status: <>The first attempt is due {due}.</> };
      return {
        status: (
          <>
            {attempts_made} of {max_attempts} attempts failed{manual && ` (${manual})`}; the next is due {due}.
          </>
        ),
        reason,
      };
    }
  }
}

const reasonWords: Readonly<Record<NonNullable<Delivery['reason']>, string>> = {
  webhook_deleted: 'The webhook was deleted before this was delivered.',
  webhook_inactive: 'The webhook was paused when the next attempt was due.',
  unsubscribed: 'The webhook was no longer subscribed to this type when the next attempt was due.',
  event_deleted: 'The event expired before this was delivered.',
};

function reasonOf({ reason }: Delivery): string {
  return reason === null ? 'It was canceled.' : reasonWords[reason];
}

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

/** The attempts that were made and those to come. */
function Timeline({ delivery }: { delivery: DeliveryDetails }) {
  const moments = timelineOf(delivery, useNow());
  const latest = moments.findLastIndex(({ kind }) => kind === 'made');
  return (
    <ol class="timeline">
      {moments.map((moment, i) => (
        <Entry key={keyOf(moment)} moment={moment} after={moments[i - 1]} open={i === latest} />
      ))}
    </ol>
  );
}

function keyOf(moment: Moment): string {
  if (moment.kind === 'made') return moment.attempt.started_at;
  return moment.kind === 'next' || moment.kind === 'later' ? `${moment.number}` : moment.kind;
}

function Entry({ moment, after, open }: { moment: Moment; after: Moment | undefined; open: boolean }) {
  switch (moment.kind) {
    case 'made':
      return (
        <AttemptEntry attempt={moment.attempt} after={after?.kind === 'made' ? after.attempt : undefined} open={open} />
      );
    case 'sending':
      return (
        <li class="moment moment-sending">
          <h3>Sending now</h3>
          <p class="muted">The receiver has up to 30 seconds to answer.</p>
        </li>
      );
    case 'spared': {
      const { from, to } = moment;
      return (
        <li class="moment moment-later">
          <h3 class="muted">
            {from === to ? `Attempt ${from} is not made` : `Attempts ${from} to ${to} are not made`}
          </h3>
        </li>
      );
    }
    default:
      return <Coming moment={moment} />;
  }
}

/** One attempt of the timeline; the last one is open. */
function AttemptEntry({ attempt, after, open }: AttemptProps & { readonly open: boolean }) {
  return (
    <li class={`moment ${succeeded(attempt) ? 'moment-good' : 'moment-bad'}`}>
      <MomentHead at={attempt.started_at}>{attempt.manual ? 'Manual attempt' : `Attempt ${attempt.number}`}</MomentHead>
      <AttemptSummary attempt={attempt} after={after} />
      <details open={open}>
        <summary>Request and response</summary>
        <AttemptExchange attempt={attempt} />
      </details>
    </li>
  );
}

function MomentHead({ at, children }: { at: string; children: ComponentChildren }) {
  return (
    <div class="moment-head">
      <h3>{children}</h3>
      <span class="muted small">
        <Time at={at} />
      </span>
    </div>
  );
}

function Coming({ moment }: { moment: Extract<Moment, { kind: 'next' | 'later' }> }) {
  const { kind, number, at, last } = moment;
  return (
    <li class={`moment moment-${kind}`}>
      <MomentHead at={at}>
        Attempt {number}
        {last && ', the last'}
      </MomentHead>
      <p>
        {kind === 'next' ? (
          <>
            Due <Countdown to={at} />
          </>
        ) : (
          <span class="muted">If the ones before fail at once</span>
        )}
      </p>
    </li>
  );
}

/** One line of a delivery's timeline. */
type Moment =
  | { readonly kind: 'made'; readonly attempt: Attempt }
  | { readonly kind: 'sending' }
  | { readonly kind: 'next' | 'later'; readonly number: number; readonly at: string; readonly last: boolean }
  | { readonly kind: 'spared'; readonly from: number; readonly to: number };

/**
 * What was, what is next and what comes after, should that fail too.
 * @param now in milliseconds: what is due by then and in flight is under way
 */
function timelineOf(delivery: DeliveryDetails, now: number): Moment[] {
  const { attempts, in_flight, state, attempts_made, max_attempts } = delivery;
  const schedule = delivery.schedule.filter(({ due_at }) => !(in_flight && Date.parse(due_at) <= now));
  const inOrder = [...attempts].sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
  const moments: Moment[] = inOrder.map((attempt) => ({ kind: 'made', attempt }));
  if (in_flight) moments.push({ kind: 'sending' });
  schedule.forEach(({ number, due_at }, i) => {
    const kind = i === 0 && !in_flight ? 'next' : 'later';
    moments.push({ kind, number, at: due_at, last: number === max_attempts });
  });
  if (state !== 'pending' && !in_flight && attempts_made < max_attempts) {
    moments.push({ kind: 'spared', from: attempts_made + 1, to: max_attempts });
  }
  return moments;
}
