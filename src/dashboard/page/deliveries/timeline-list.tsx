import type { DeliveryDetails } from '../api/types.ts';
import { useNow } from '../data/clock.tsx';
import { Countdown, Time } from '../elements/time.tsx';
import { AttemptEntry } from './attempt.tsx';
import { type Moment, timelineOf } from './timeline.ts';

function Coming({ moment }: { moment: Extract<Moment, { kind: 'next' | 'later' }> }) {
  const { kind, number, at, last } = moment;
  return (
    <li class={`moment moment-${kind}`}>
      <div class="moment-head">
        <h3>
          Attempt {number}
          {last && ', the last'}
        </h3>
        <span class="muted small">
          <Time at={at} />
        </span>
      </div>
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

function keyOf(moment: Moment): string {
  if (moment.kind === 'made') return moment.attempt.started_at;
  return moment.kind === 'next' || moment.kind === 'later' ? `${moment.number}` : moment.kind;
}

/** The attempts that were made and those to come. */
export function Timeline({ delivery }: { delivery: DeliveryDetails }) {
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
