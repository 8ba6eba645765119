import type { ComponentChildren } from 'preact';
import type { DeliveryDetails } from '../api/types.ts';
import { Countdown } from '../elements/time.tsx';
import { counted } from '../format/number.ts';
import { manualWords, reasonOf, succeeded } from './words.ts';

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

export function DeliverySummary({ delivery }: { delivery: DeliveryDetails }) {
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
