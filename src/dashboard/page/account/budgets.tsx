import { useId, useState } from 'preact/hooks';
import { exactNumber } from '../data/error.ts';
import { refreshEvery, useRead } from '../data/query.ts';
import { useSession } from '../data/session.ts';
import type { Budget, BudgetUsage } from '../data/types.ts';
import { Badge } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { FieldError, FormDialog, useFieldError } from '../elements/form.tsx';
import { amount } from '../elements/format.ts';
import { Ago } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Card } from '../elements/view.tsx';

/** What budgets can have a maximum of. */
const budgetUnits = ['tokens', 'requests', 'credits'] as const satisfies readonly (keyof BudgetUsage['used'])[];

type BudgetUnit = (typeof budgetUnits)[number];

/** The periods of budgets, and their names in a form. */
const periodNames = [
  ['day', 'a day'],
  ['month', 'a month'],
  ['total', 'in total'],
] as const;

/** The budgets of this session's account. */
export function BudgetsCard() {
  const { user_id } = useSession();
  const query = useRead('/v1/budgets', {}, refreshEvery);
  if (!query.data) return null;
  return <BudgetsSection userId={user_id} budgets={query.data.data} onClose={query.reload} />;
}

interface SectionProps {
  readonly userId: string;
  readonly budgets: readonly BudgetUsage[];
  /** Called when the editor has closed, after a change or without one. */
  readonly onClose: () => void;
}

/** The budgets of an account; nothing where it has none and this session may set none. */
export function BudgetsSection({ userId, budgets, onClose }: SectionProps) {
  const { api, scopes, has_budgets } = useSession();
  const [dialog, edit] = useDialog(
    (close) => (
      <EditBudgets
        title={`Budgets of the account ${userId}`}
        of="account"
        budgets={budgets}
        save={(changed) =>
          api.PUT('/v1/users/{user_id}/budgets', { params: { path: { user_id: userId } }, body: { budgets: changed } })
        }
        onClose={close}
      />
    ),
    onClose,
  );
  const mayEdit = scopes.includes('admin') && !has_budgets;
  if (budgets.length === 0 && !mayEdit) return null;
  const button = (
    <Button label="Edit the budgets of the account" onClick={edit}>
      Edit
    </Button>
  );
  return (
    <Card text id="budgets" title="Budgets" aside={mayEdit && button}>
      <BudgetLines budgets={budgets} />
      {dialog}
    </Card>
  );
}

const spans: Readonly<Record<BudgetUsage['period'], string>> = { day: 'today', month: 'this month', total: 'in total' };

/** Budgets and what is used of them, a line for each maximum. Days and months are UTC. */
export function BudgetLines({ budgets }: { budgets: readonly BudgetUsage[] }) {
  if (budgets.length === 0) return <span class="muted">None</span>;
  return (
    <ul class="budgets numbers">
      {budgets.flatMap((budget) =>
        budgetUnits.map((unit) => {
          const maximum = budget[unit];
          const used = budget.used[unit];
          return maximum === undefined ? null : (
            <li key={`${budget.period} ${unit}`}>
              {amount(used)} of {amount(maximum)} {unit} {spans[budget.period]}{' '}
              {used >= maximum && <Badge shape="bad">Used up</Badge>}{' '}
              {budget.resets_at && (
                <span class="muted small">
                  resets <Ago at={budget.resets_at} />
                </span>
              )}
            </li>
          );
        }),
      )}
    </ul>
  );
}

interface EditProps {
  readonly title: string;
  readonly of: 'key' | 'account';
  readonly budgets: readonly Budget[];
  /** Replaces them all. */
  readonly save: (budgets: Budget[]) => Promise<unknown>;
  readonly onClose: () => void;
}

/** Changes the budgets of a key or an account. What is used of them stays as it is. */
export function EditBudgets({ title, of, budgets, save, onClose }: EditProps) {
  const [inputs, setInputs] = useState(() => toInputs(budgets));
  return (
    <FormDialog
      title={title}
      submit="Save"
      fields={['budgets']}
      onSubmit={async () => save(budgetsFrom(inputs))}
      done="The budgets have been saved"
      onClose={onClose}
    >
      <BudgetsField value={inputs} of={of} onInput={setInputs} />
    </FormDialog>
  );
}

/** Budgets as they are filled in: a text for each maximum that there may be, by period and unit. */
export type BudgetInputs = Readonly<Partial<Record<`${Budget['period']} ${BudgetUnit}`, string>>>;

function toInputs(budgets: readonly Budget[]): BudgetInputs {
  return Object.fromEntries(
    budgets.flatMap((budget) =>
      budgetUnits.flatMap((unit) =>
        budget[unit] === undefined ? [] : [[`${budget.period} ${unit}`, String(budget[unit])]],
      ),
    ),
  );
}

/** What the API is given for them; what is empty has no maximum. @throws ApiError for a number that JSON would change */
export function budgetsFrom(inputs: BudgetInputs): Budget[] {
  return periodNames.flatMap(([period]) => {
    const maxima = budgetUnits.flatMap((unit) => {
      const text = inputs[`${period} ${unit}`];
      return text ? [[unit, exactNumber(text, 'budgets')] as const] : [];
    });
    return maxima.length === 0 ? [] : [{ period, ...Object.fromEntries(maxima) }];
  });
}

interface FieldProps {
  readonly value: BudgetInputs;
  /** What ends when one is used up. */
  readonly of: 'key' | 'account';
  readonly onInput: (value: BudgetInputs) => void;
}

/** A maximum for each period and unit. */
export function BudgetsField({ value, of, onInput }: FieldProps) {
  const id = useId();
  const error = useFieldError('budgets');
  return (
    <fieldset class="field" aria-describedby={`${id}-hint`}>
      <legend>Budgets</legend>
      <table class="budgets-field">
        <thead>
          <tr>
            <td />
            {budgetUnits.map((unit) => (
              <th key={unit} scope="col">
                {nameOf(unit)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {periodNames.map(([period, text]) => (
            <tr key={period}>
              <th scope="row">{text}</th>
              {budgetUnits.map((unit) => (
                <td key={unit}>
                  <input
                    type="number"
                    {...limitsOf(unit)}
                    aria-label={`${nameOf(unit)} ${text}`}
                    aria-invalid={error ? true : undefined}
                    placeholder="–"
                    value={value[`${period} ${unit}`] ?? ''}
                    onInput={({ currentTarget }) => onInput({ ...value, [`${period} ${unit}`]: currentTarget.value })}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted small" id={`${id}-hint`}>
        An empty field sets no maximum. When a budget is used up, model calls{' '}
        {of === 'key' ? 'with the key' : 'of the account'} are refused. Days and months are UTC.
      </p>
      <FieldError error={error} />
    </fieldset>
  );
}

const nameOf = (unit: BudgetUnit) => unit.charAt(0).toUpperCase() + unit.slice(1);

/** Credits are counted to a millionth, everything else in whole numbers. */
const limitsOf = (unit: BudgetUnit) => (unit === 'credits' ? { min: 0.000_001, step: 'any' } : { min: 1, step: 1 });
