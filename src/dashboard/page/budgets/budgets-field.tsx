import { useId } from 'preact/hooks';
import { exactNumber } from '../api/exact-number.ts';
import type { Budget } from '../api/types.ts';
import { type BudgetUnit, budgetUnits, periodNames } from './units.ts';

/** Budgets as they are filled in: a text for each maximum that there may be, by period and unit. */
export type BudgetInputs = Readonly<Partial<Record<`${Budget['period']} ${BudgetUnit}`, string>>>;

export function toInputs(budgets: readonly Budget[]): BudgetInputs {
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

const nameOf = (unit: BudgetUnit) => unit.charAt(0).toUpperCase() + unit.slice(1);

/** Credits are counted to a millionth, everything else in whole numbers. */
const limitsOf = (unit: BudgetUnit) => (unit === 'credits' ? { min: 0.000_001, step: 'any' } : { min: 1, step: 1 });

interface Props {
  readonly value: BudgetInputs;
  readonly error: string | undefined;
  /** What ends when one is used up. */
  readonly of: 'key' | 'account';
  readonly onInput: (value: BudgetInputs) => void;
}

/** A maximum for each period and unit. */
export function BudgetsField({ value, error, of, onInput }: Props) {
  const id = useId();
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
      <p class="field-hint" id={`${id}-hint`}>
        An empty field sets no maximum. When a budget is used up, model calls{' '}
        {of === 'key' ? 'with the key' : 'of the account'} are refused. Days and months are UTC.
      </p>
      {error && (
        <p class="field-error" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
