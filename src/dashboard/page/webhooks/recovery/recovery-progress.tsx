import type { Recovery } from '../../api/types.ts';
import { Ago, Time } from '../../elements/time.tsx';
import { count } from '../../format/number.ts';

/** The progress of a recovery. */
export function RecoveryProgress({ recovery }: { recovery: Recovery }) {
  const { id, state, found, resent, delivered, failed, since, until, started_at } = recovery;
  return (
    <div class="recovery">
      <p class="recovery-line">
        <b id={id}>{state === 'running' ? 'Recovering' : 'Recovered'}</b>
        <span class="muted small">
          what was missed from <Time at={since} /> to <Time at={until} />, begun <Ago at={started_at} />
        </span>
      </p>
      <progress value={found === 0 && state === 'done' ? 1 : resent} max={Math.max(1, found)} aria-labelledby={id} />
      <p class="numbers small" role={state === 'running' ? 'status' : undefined}>
        {found === 0 && state === 'done'
          ? 'Nothing was missed.'
          : `${count(resent)} of ${count(found)} sent again · ${count(delivered)} delivered · ${count(failed)} failed`}
      </p>
    </div>
  );
}
