import type { ComponentChildren } from 'preact';
import type { DeliveryDetails } from '../api/types.ts';
import { Countdown } from '../elements/time.tsx';
import { counted } from '../format/number.ts';
import { manualWords, reasonOf, succeeded } from './words.ts';

/** The state of a delivery, its reason if it needs one, and what happens next. */
interface Parts {
  readonly standing: ComponentChildren;
  readonly why?: string | null | undefined;
  readonly next?: string;
}

function partsOf(delivery: DeliveryDetails): Parts {
  const { state, in_flight, attempts, next_attempt_at, attempts_made, max_attempts } = delivery;
  const why = attempts.findLast((attempt) => !succeeded(attempt))?.explanation;
  const manual = manualWords(delivery);
  if (in_flight) return { standing: 'An attempt is under way at this moment.' };
  switch (state) {
    case 'delivered':
      return {
        standing:
          attempts_made === 0
            ? 'Delivered by a manual resend.'
            : `Delivered after ${counted(attempts.length, 'attempt')}${manual && `, ${manual}`}.`,
      };
    case 'canceled':
      return { standing: 'Canceled.', why: reasonOf(delivery), next: 'No further attempt follows.' };
    case 'failed':
      return {
        standing: `${max_attempts === 1 ? 'The one attempt' : `All ${attempts_made} attempts`} failed${manual && `; ${manual}`}.`,
        why,
        next: 'No further attempt follows. Once the receiver works, send it again.',
      };
    case 'pending': {
      const due = next_attempt_at ? <Countdown to={next_attempt_at} /> : 'soon';
      if (attempts_made === 0) return { standing: <>The first attempt is due {due}.</> };
      return {
        standing: (
          <>
            {attempts_made} of {max_attempts} attempts failed{manual && ` (${manual})`}; the next is due {due}.
          </>
        ),
        why,
      };
    }
  }
}

export function Story({ delivery }: { delivery: DeliveryDetails }) {
  const { standing, why, next } = partsOf(delivery);
  return (
    <>
      <p>
        <b>{standing}</b>
      </p>
      {why && <p>{why}</p>}
      {next && <p class="muted">{next}</p>}
    </>
  );
}
