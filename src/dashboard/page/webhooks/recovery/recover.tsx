import { useState } from 'preact/hooks';
import type { RecoverBody, Recovery, Webhook } from '../../api/types.ts';
import { useAction } from '../../data/use-action.ts';
import { useQuery } from '../../data/use-query.ts';
import { Button } from '../../elements/inputs/button.tsx';
import { Failure } from '../../elements/states.tsx';
import { Ago, Time } from '../../elements/time.tsx';
import { count } from '../../format/number.ts';
import { useApi } from '../../session/session.ts';
import { useAnnounce } from '../../shell/announce.tsx';
import { SpanFields, toPeriod, useSpan } from './recovery-span.tsx';

const kinds = [
  { state: 'failed', name: 'Failed', meaning: 'after their last attempt' },
  { state: 'canceled', name: 'Canceled', meaning: 'while it was paused or not subscribed' },
  { state: 'skipped', name: 'Skipped', meaning: 'events that came while it was paused' },
] as const;

/** While one runs, its progress is this old at most, in milliseconds. */
const progressEvery = 1_000;

/** The progress of a recovery. */
function RecoveryProgress({ recovery }: { recovery: Recovery }) {
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

/** Sends again what was missed, and shows how far that has come. */
export function Recover({ webhook }: { webhook: Webhook }) {
  const api = useApi();
  const announce = useAnnounce();
  const [span, changeSpan] = useSpan();
  const [states, setStates] = useState<readonly string[]>(kinds.map(({ state }) => state));
  const recoveries = useQuery((signal) => api.listRecoveries(webhook.id, { signal }), {
    key: `recoveries ${webhook.id}`,
    every: ({ data }) => (data.some(({ state }) => state === 'running') ? progressEvery : null),
  });
  const recover = useAction(async () => {
    await api.recoverWebhook(webhook.id, { ...toPeriod(span), states } as RecoverBody);
    announce('Recovery has begun');
    recoveries.reload();
  });
  const [latest, ...earlier] = recoveries.data?.data ?? [];

  return (
    <section class="card" aria-labelledby="recover">
      <div class="card-head">
        <h2 id="recover">Recover</h2>
      </div>
      <form
        class="card-body"
        onSubmit={(event) => {
          event.preventDefault();
          void recover.run();
        }}
      >
        <p class="muted">Sends again what this webhook missed, at a rate that leaves room for new events.</p>
        <div class="row">
          <SpanFields span={span} onChange={changeSpan} />
          <fieldset class="field inline-checks">
            <legend>What</legend>
            {kinds.map(({ state, name, meaning }) => (
              <label class="check" key={state} title={meaning}>
                <input
                  type="checkbox"
                  checked={states.includes(state)}
                  onChange={({ currentTarget }) =>
                    setStates(currentTarget.checked ? [...states, state] : states.filter((one) => one !== state))
                  }
                />
                {name}
              </label>
            ))}
          </fieldset>
          <Button
            type="submit"
            busy={recover.running || latest?.state === 'running'}
            disabledReason={
              !webhook.active
                ? 'The webhook is paused: resume it first'
                : states.length === 0 && 'Choose what to send again'
            }
          >
            Recover
          </Button>
        </div>
        {!webhook.active && <p class="note">Resume the webhook first: nothing is sent to it while it is paused.</p>}
        {recover.error && <Failure error={recover.error} />}
        {latest && <RecoveryProgress recovery={latest} />}
        {earlier.length > 0 && (
          <details>
            <summary>Earlier recoveries</summary>
            {earlier.map((one) => (
              <RecoveryProgress key={one.id} recovery={one} />
            ))}
          </details>
        )}
      </form>
    </section>
  );
}
