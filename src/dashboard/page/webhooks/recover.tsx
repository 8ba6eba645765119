import { useState } from 'preact/hooks';
import { useAction, useRead } from '../data/query.ts';
import { useApi } from '../data/session.ts';
import type { RecoverBody, Recovery, Webhook } from '../data/types.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { Button } from '../elements/button.tsx';
import { fromLocal } from '../elements/filters.tsx';
import { SelectField, TextField } from '../elements/form.tsx';
import { count } from '../elements/format.ts';
import { Failure } from '../elements/states.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { Card } from '../elements/view.tsx';

const kinds = [
  { state: 'failed', name: 'Failed', meaning: 'after their last attempt' },
  { state: 'canceled', name: 'Canceled', meaning: 'while it was paused or not subscribed' },
  { state: 'skipped', name: 'Skipped', meaning: 'events that came while it was paused' },
] as const;

/** While one runs, its progress is this old at most, in milliseconds. */
const progressEvery = 1_000;

const spans = [
  [1, 'The last hour'],
  [24, 'The last 24 hours'],
  [168, 'The last 7 days'],
  [696, 'The last 29 days'],
  [0, 'A time of your own…'],
] as const;

const local = { type: 'datetime-local' } as const;

/** Sends again what was missed, and shows how far that has come. */
export function Recover({ webhook }: { webhook: Webhook }) {
  const api = useApi();
  const announce = useAnnounce();
  const [hours, setHours] = useState<(typeof spans)[number][0]>(24);
  // as the browser writes local times; of a time of one's own
  const [from, setFrom] = useState('');
  const [until, setUntil] = useState('');
  const [states, setStates] = useState<readonly string[]>(kinds.map(({ state }) => state));
  const path = { id: webhook.id };
  const recoveries = useRead('/v1/webhooks/{id}/recoveries', { path, query: { limit: 5 } }, ({ data }) =>
    data.some(({ state }) => state === 'running') ? progressEvery : null,
  );
  const recover = useAction(async () => {
    const period =
      hours > 0
        ? { since: new Date(Date.now() - hours * 3_600_000).toISOString() }
        : { since: fromLocal(from), ...(until && { until: fromLocal(until) }) };
    await api.POST('/v1/webhooks/{id}/recover', { params: { path }, body: { ...period, states } as RecoverBody });
    announce('Recovery has begun');
    recoveries.reload();
  });
  const [latest, ...earlier] = recoveries.data?.data ?? [];
  const disabledReason = webhook.active
    ? states.length === 0 && 'Choose what to send again'
    : 'The webhook is paused: resume it first';
  return (
    <Card id="recover" title="Recover">
      <form
        class="card-body"
        onSubmit={(event) => {
          event.preventDefault();
          void recover.run();
        }}
      >
        <p class="muted">Sends again what this webhook missed, at a rate that leaves room for new events.</p>
        <div class="row">
          <SelectField label="From" value={hours} options={spans} onChosen={setHours} />
          {hours === 0 && (
            <>
              <TextField label="Since" input={{ ...local, required: true }} value={from} onText={setFrom} />
              <TextField label="Until (optional)" input={local} value={until} onText={setUntil} />
            </>
          )}
          <KindsField states={states} onStates={setStates} />
          <Button type="submit" busy={recover.running || latest?.state === 'running'} disabledReason={disabledReason}>
            Recover
          </Button>
        </div>
        {!webhook.active && <p class="note">Resume the webhook first: nothing is sent to it while it is paused.</p>}
        {recover.error && <Failure error={recover.error} />}
        {latest && <RecoveryProgress recovery={latest} />}
        {earlier.length > 0 && <Earlier recoveries={earlier} />}
      </form>
    </Card>
  );
}

function KindsField({ states, onStates }: { states: readonly string[]; onStates: (states: string[]) => void }) {
  return (
    <fieldset class="field inline-checks">
      <legend>What</legend>
      {kinds.map(({ state, name, meaning }) => (
        <label class="check" key={state} title={meaning}>
          <input
            type="checkbox"
            checked={states.includes(state)}
            onChange={({ currentTarget }) =>
              onStates(currentTarget.checked ? [...states, state] : states.filter((one) => one !== state))
            }
          />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

function Earlier({ recoveries }: { recoveries: readonly Recovery[] }) {
  return (
    <details>
      <summary>Earlier recoveries</summary>
      {recoveries.map((recovery) => (
        <RecoveryProgress key={recovery.id} recovery={recovery} />
      ))}
    </details>
  );
}

/** The progress of a recovery. */
function RecoveryProgress({ recovery }: { recovery: Recovery }) {
  const { id, state, found, resent, delivered, failed, since, until, started_at } = recovery;
  return (
    <div class="recovery">
      <p class="wrap baseline">
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
