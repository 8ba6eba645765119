import { useSession } from '../session/session.ts';
import { type GrantableScope, grantableScopes } from './permissions.ts';

const meanings: Readonly<Record<GrantableScope, string>> = {
  models: 'Model calls, usage and credits',
  webhooks: 'Webhooks, events and deliveries',
  keys: 'API keys such as this one',
};

interface Props {
  readonly value: readonly GrantableScope[];
  readonly onInput: (scopes: readonly GrantableScope[]) => void;
}

/** What a new key may be used for. */
export function ScopesField({ value, onInput }: Props) {
  const session = useSession();
  const offered = grantableScopes(session);
  return (
    <fieldset class="field">
      <legend>Good for</legend>
      {offered.map((scope) => (
        <label class="check" key={scope}>
          <input
            type="checkbox"
            checked={value.includes(scope)}
            onChange={({ currentTarget }) =>
              onInput(
                offered.filter((granted) => (granted === scope ? currentTarget.checked : value.includes(granted))),
              )
            }
          />
          <span>
            <b>{scope}</b>
            <span class="muted small">{meanings[scope]}</span>
          </span>
        </label>
      ))}
      {session.has_budgets && session.scopes.includes('models') && (
        <p class="field-hint">Your own key has budgets, so it cannot create keys for model calls.</p>
      )}
    </fieldset>
  );
}
