import { useState } from 'preact/hooks';
import type { ApiKeyCreate, NewApiKey } from '../api/types.ts';
import { errorOf, otherError } from '../data/field-errors.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/button.tsx';
import { CopyButton } from '../elements/copy.tsx';
import { Dialog } from '../elements/dialog.tsx';
import { Field } from '../elements/field.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi, useSession } from '../session/session.ts';
import { BudgetField, noBudget, toBudgets } from './budget-field.tsx';

const meanings: Readonly<Record<string, string>> = {
  models: 'Model calls, usage and credits',
  webhooks: 'Webhooks, events and deliveries',
  keys: 'API keys such as this one',
  'events:publish': 'Events and payments of any account',
  admin: "The operator's own tools",
};

const lives = [
  [0, 'No end'],
  [1, '1 day'],
  [30, '30 days'],
  [365, '1 year'],
] as const;

/** The one time a key is shown. */
function Shown({ made, onClose }: { made: NewApiKey; onClose: () => void }) {
  return (
    <Dialog
      title="Copy the key now"
      onClose={onClose}
      actions={
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p>It is not kept and cannot be shown again.</p>
      <p class="secret">
        <code>{made.key}</code>
        <CopyButton text={made.key} what="API key">
          Copy
        </CopyButton>
      </p>
    </Dialog>
  );
}

export function CreateKey({ onClose }: { onClose: () => void }) {
  const api = useApi();
  const { scopes: own } = useSession();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(own.filter((scope) => scope === 'models'));
  const [days, setDays] = useState(0);
  const [budget, setBudget] = useState(noBudget);
  const [made, setMade] = useState<NewApiKey>();
  const create = useAction(async () => {
    const ends = days > 0 && { expires_at: new Date(Date.now() + days * 86_400_000).toISOString() };
    const body = { name: name.trim(), scopes, budgets: toBudgets(budget), ...ends };
    setMade(await api.createApiKey(body as ApiKeyCreate));
  });
  if (made) return <Shown made={made} onClose={onClose} />;
  const other = otherError(create.error, ['name', 'budgets']);
  return (
    <Dialog
      title="Create an API key"
      onClose={onClose}
      onSubmit={() => void create.run()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={create.running} disabled={scopes.length === 0}>
            Create key
          </Button>
        </>
      }
    >
      <Field label="Name" error={errorOf(create.error, 'name')} hint="What you will know it by.">
        {(field) => (
          <input
            {...field}
            required
            maxLength={64}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        )}
      </Field>
      <fieldset class="field">
        <legend>Good for</legend>
        {own.map((scope) => (
          <label class="check" key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={({ currentTarget }) =>
                setScopes(own.filter((one) => (one === scope ? currentTarget.checked : scopes.includes(one))))
              }
            />
            <span>
              <b>{scope}</b>
              <span class="muted small">{meanings[scope]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <Field label="Ends after">
        {(field) => (
          <select {...field} value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {lives.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <BudgetField value={budget} error={errorOf(create.error, 'budgets')} onInput={setBudget} />
      {other && <Failure error={other} />}
    </Dialog>
  );
}
