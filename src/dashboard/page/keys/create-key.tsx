import { useState } from 'preact/hooks';
import type { NewApiKey } from '../api/types.ts';
import { type BudgetInputs, BudgetsField, budgetsFrom } from '../budgets/budgets-field.tsx';
import { errorOf, otherError } from '../data/field-errors.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/inputs/button.tsx';
import { CopyButton } from '../elements/inputs/copy.tsx';
import { Dialog } from '../elements/inputs/dialog.tsx';
import { Field } from '../elements/inputs/field.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi, useSession } from '../session/session.ts';
import { type ExpiryChoice, ExpiryField, toExpiry } from './expiry-field.tsx';
import { type GrantableScope, grantableScopes } from './permissions.ts';
import { ScopesField } from './scopes-field.tsx';

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
  const session = useSession();
  const { models, expires_at: sessionExpiry } = session;
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly GrantableScope[]>(
    grantableScopes(session).filter((scope) => scope === 'models'),
  );
  const [expiry, setExpiry] = useState<ExpiryChoice>(sessionExpiry === null ? '0' : 'own');
  const [budgets, setBudgets] = useState<BudgetInputs>({});
  const [made, setMade] = useState<NewApiKey>();
  const create = useAction(async () => {
    // a key cannot make one that may call more models
    const callable = models && { models: [...models] };
    const body = {
      name: name.trim(),
      scopes: [...scopes],
      budgets: budgetsFrom(budgets),
      ...callable,
      ...toExpiry(expiry, sessionExpiry),
    };
    setMade(await api.createApiKey(body));
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
      <ScopesField value={scopes} onInput={setScopes} />
      {models && <p class="muted small">It may call what your own key may: {models.join(', ')}.</p>}
      <ExpiryField value={expiry} onInput={setExpiry} />
      <BudgetsField value={budgets} error={errorOf(create.error, 'budgets')} of="key" onInput={setBudgets} />
      {other && <Failure error={other} />}
    </Dialog>
  );
}
