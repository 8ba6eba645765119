import type { Webhook } from '../api/types.ts';
import { outcomeWords } from '../deliveries/words.ts';
import { StateIcon } from '../elements/icons.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { href } from '../routing/route.ts';

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

/** What its owner should know first. */
export function HealthNotice({ webhook }: { webhook: Webhook }) {
  const { active, disabled, health } = webhook;
  const { failing_since, last_failure } = health;
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
      {active && health.state === 'failing' && last_failure && (
        <div class="notice notice-bad">
          <StateIcon shape="bad" />
          <div>
            <p>
              <b>{outcomeWords(last_failure)}</b>
              {failing_since && (
                <>
                  {' '}
                  – failing since <Ago at={failing_since} />
                </>
              )}
            </p>
            <p>
              {last_failure.explanation}{' '}
              <a href={href(['deliveries', last_failure.delivery_id])}>See the last failure</a>
            </p>
          </div>
        </div>
      )}
      <Rotation webhook={webhook} />
    </>
  );
}
