import { useState } from 'preact/hooks';
import { type Api, dataOf, read } from '../data/api.ts';
import { ApiError } from '../data/error.ts';
import { useQuery, useRead } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import { useApi, useSession } from '../data/session.ts';
import type { ApiKey, NewApiKey, Session } from '../data/types.ts';
import { Tags } from '../elements/badge.tsx';
import { Button, CopyButton, Id } from '../elements/button.tsx';
import { Checks, Dialog, FormDialog, SelectField, TextField } from '../elements/form.tsx';
import { PlusIcon } from '../elements/icons.tsx';
import { Loaded } from '../elements/states.tsx';
import { firstAndNext, Listed } from '../elements/table.tsx';
import { Time } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Card, Facts, Heading } from '../elements/view.tsx';
import { type BudgetInputs, BudgetLines, BudgetsField, budgetsFrom } from './budgets.tsx';
import { EditableKeys } from './editable-keys.tsx';

/** The account's API keys. */
export function KeysView({ route }: { route: Route }) {
  const session = useSession();
  const { api } = session;
  const { after } = route.query;
  const query = useRead('/v1/api_keys', { query: { limit: 50, after } });
  const [dialog, create] = useDialog((close) => <CreateKey onClose={close} />, query.reload);
  return (
    <>
      <Heading
        title="API keys"
        actions={
          <Button kind="primary" onClick={create}>
            <PlusIcon />
            Create key
          </Button>
        }
      />
      <Card label="API keys">
        <EditableKeys
          // a dialog closes with the page of the list that it was opened on
          key={after}
          mayControl={(key) => mayControl(session, key)}
          update={(id, budgets) => api.PATCH('/v1/api_keys/{id}', { params: { path: { id } }, body: { budgets } })}
          revoke={(id) => api.DELETE('/v1/api_keys/{id}', { params: { path: { id } } })}
          onClose={query.reload}
        >
          {(list) => <Listed query={query} list={list} empty="No API keys" pages={{ route, names: firstAndNext }} />}
        </EditableKeys>
      </Card>
      {dialog}
    </>
  );
}

/** Whether the API lets this session change or revoke a key: not one that may do more, or call more, than itself. */
function mayControl({ scopes, models }: Session, key: ApiKey): boolean {
  const hasScopes = key.scopes.every((scope) => scopes.includes(scope));
  return hasScopes && (!models || key.models?.every((model) => models.includes(model)) === true);
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
  async function create(): Promise<void> {
    const expires_at = expiry === 'own' ? sessionExpiry : expiry === '0' ? null : endAfter(Number(expiry));
    const body = {
      name: name.trim(),
      scopes: [...scopes],
      budgets: budgetsFrom(budgets),
      // a key cannot make one that may call more models
      ...(models && { models: [...models] }),
      ...(expires_at && { expires_at }),
    };
    setMade(await dataOf(api.POST('/v1/api_keys', { body })));
  }
  if (made) return <Shown made={made} onClose={onClose} />;
  return (
    <FormDialog
      title="Create an API key"
      submit="Create key"
      fields={['name', 'budgets']}
      onSubmit={create}
      disabled={scopes.length === 0}
      onClose={onClose}
    >
      <TextField
        label="Name"
        hint="What you will know it by."
        name="name"
        input={{ required: true, maxLength: 64 }}
        value={name}
        onText={setName}
      />
      <ScopesField value={scopes} onInput={setScopes} />
      {models && <p class="muted small">It may call what your own key may: {models.join(', ')}.</p>}
      <ExpiryField value={expiry} onInput={setExpiry} />
      <BudgetsField value={budgets} of="key" onInput={setBudgets} />
    </FormDialog>
  );
}

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
      <p class="line secret">
        <code>{made.key}</code>
        <CopyButton text={made.key} what="API key">
          Copy
        </CopyButton>
      </p>
    </Dialog>
  );
}

/** The scopes that concern one account alone. Keys that reach other accounts are made with the operator's own tools. */
const accountScopes = {
  models: 'Model calls, usage and credits',
  webhooks: 'Webhooks, events and deliveries',
  keys: 'API keys such as this one',
} as const;

type GrantableScope = keyof typeof accountScopes;

/** The scopes that the API lets this session give to a new key, of those that customers have. */
function grantableScopes({ scopes, has_budgets }: Session): GrantableScope[] {
  const all = Object.keys(accountScopes) as GrantableScope[];
  return all.filter((scope) => scopes.includes(scope) && !(has_budgets && scope === 'models'));
}

interface ScopesProps {
  readonly value: readonly GrantableScope[];
  readonly onInput: (scopes: readonly GrantableScope[]) => void;
}

/** What a new key may be used for. */
function ScopesField({ value, onInput }: ScopesProps) {
  const session = useSession();
  return (
    <fieldset class="field">
      <legend>Good for</legend>
      <Checks
        chosen={value}
        options={grantableScopes(session).map((name) => ({ name, meaning: accountScopes[name] }))}
        onChosen={onInput}
      />
      {session.has_budgets && session.scopes.includes('models') && (
        <p class="muted small">Your own key has budgets, so it cannot create keys for model calls.</p>
      )}
    </fieldset>
  );
}

const expiryChoices = [
  ['0', 'Never'],
  ['1', 'After 1 day'],
  ['30', 'After 30 days'],
  ['365', 'After 1 year'],
] as const;

/** When a new key ends: after so many days, or with the key that makes it. */
type ExpiryChoice = (typeof expiryChoices)[number][0] | 'own';

const endAfter = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

/** Offers no end later than that of the session's own key: the API refuses that. */
function ExpiryField({ value, onInput }: { value: ExpiryChoice; onInput: (choice: ExpiryChoice) => void }) {
  const { expires_at: sessionExpiry } = useSession();
  const offered =
    sessionExpiry === null
      ? expiryChoices
      : ([
          ['own', 'With your own key'],
          ...expiryChoices.filter(([choice]) => choice !== '0' && endAfter(Number(choice)) <= sessionExpiry),
        ] as const);
  return <SelectField<ExpiryChoice> label="Ends" value={value} options={offered} onChosen={onInput} />;
}

/** One API key, as it is found by its id. */
export function KeyView({ id }: { id: string }) {
  const api = useApi();
  const query = useQuery((signal) => findKey(api, id, signal), id);
  return (
    <>
      <Heading title={query.data?.name || 'API key'} up="keys" />
      <Loaded query={query} lines={5}>
        {(apiKey) => <Opened apiKey={apiKey} />}
      </Loaded>
    </>
  );
}

/** Reads the list page by page: the API has no operation for one key. */
async function findKey(api: Api, id: string, signal: AbortSignal): Promise<ApiKey> {
  let after: string | undefined;
  for (;;) {
    const { data, has_more } = await read(api, '/v1/api_keys', { query: { limit: 100, after } }, signal);
    const apiKey = data.find((key) => key.id === id);
    if (apiKey) return apiKey;
    after = data.at(-1)?.id;
    if (has_more && after) continue;
    throw new ApiError(`No API key ${id} is in this account; the view API keys lists those that are`, {
      status: 404,
      code: 'api_key_not_found',
    });
  }
}

function Opened({ apiKey }: { apiKey: ApiKey }) {
  const { id, scopes, models, budgets, created_at, expires_at, last_used_at, revoked_at } = apiKey;
  const timeOr = (at: string | null, otherwise: string) => (at ? <Time at={at} /> : otherwise);
  return (
    <Facts
      wide={['Scopes', 'Models', 'Budgets']}
      facts={[
        ['Key id', <Id id={id} what="key id" />],
        ['Created', <Time at={created_at} />],
        ['Last used', timeOr(last_used_at, 'Never')],
        ['Ends', timeOr(expires_at, 'Never')],
        ['Revoked', timeOr(revoked_at, 'No')],
        ['Scopes', <Tags of={scopes} />],
        ['Models', models?.join(', ') || 'Any'],
        ['Budgets', <BudgetLines budgets={budgets} />],
      ]}
    />
  );
}

/** The names of keys, for those who may see them; of any other key its id. */
export function useKeyNames(): (id: string) => string {
  const api = useApi();
  const mayRead = useSession().scopes.includes('keys');
  const query = useQuery(
    async (signal) => (mayRead ? read(api, '/v1/api_keys', { query: { limit: 100 } }, signal) : undefined),
    `keys ${mayRead}`,
  );
  const names = new Map(query.data?.data.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) || id;
}
