import type { Webhook } from '../api/types.ts';
import { outcomeWords } from '../deliveries/words.ts';
import { StateIcon } from '../elements/icons.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { lastFailed } from './words.ts';

const disabledFor = {
  gone: 'it answered 410 Gone',
  failing: 'everything sent to it failed for days',
} as const;

function Rotation({ webhook: { secret_rotation } }: { webhook: Webhook }) {
  if (!secret_rotation) return null;
  const { ends_at, service_signature } = secret_rotation;
  return (
    <div class="notice">
      <p>
        Two secrets are good until <Time at={ends_at} />. x-service-signature is made with the {service_signature} one.
      </p>
    </div>
  );
}

/** Why the last attempt failed, as long as none has succeeded since; not for a webhook without attempts in a week. */
function LastFailure({ webhook: { active, disabled, health } }: { webhook: Webhook }) {
  const { failing_since, last_failure } = health;
  if (!last_failure || !lastFailed(health) || (!active && !disabled)) return null;
  const isFailing = health.state === 'failing' || disabled;
  if (!isFailing && health.state === 'idle') return null;
  return (
    <div class={isFailing ? 'notice notice-bad' : 'notice'}>
      <StateIcon shape={isFailing ? 'bad' : 'uneasy'} />
      <div>
        <p>
          <b>{outcomeWords(last_failure)}</b>
          {isFailing && failing_since ? (
            <>
              {' '}
              – failing since <Ago at={failing_since} />
            </>
          ) : (
            <>
              {' '}
              – the last attempt failed, <Ago at={last_failure.at} />
            </>
          )}
        </p>
        <p>
          {last_failure.explanation} <a href={href(['deliveries', last_failure.delivery_id])}>See the last failure</a>
        </p>
      </div>
    </div>
  );
}

/** What its owner should know first. */
export function HealthNotice({ webhook }: { webhook: Webhook }) {
  const { active, disabled } = webhook;
  return (
    <>
      {disabled && (
        <div class="notice notice-bad">
          <StateIcon shape="bad" />
          <p>
            It was disabled <Ago at={disabled.at} />, for {disabledFor[disabled.reason]}. Repair the receiver, then
            resume it and recover what it missed.
          </p>
        </div>
      )}
      {!active && !disabled && (
        <div class="notice">
          <StateIcon shape="paused" />
          <p>It is paused: nothing is sent. What it misses can be recovered once it is resumed.</p>
        </div>
      )}
      <LastFailure webhook={webhook} />
      <Rotation webhook={webhook} />
    </>
  );
}
