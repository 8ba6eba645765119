import type { Budget } from '../api/types.ts';
import { budgetUnits } from '../budgets/budget-lines.tsx';

/** A budget as it is filled in. */
export interface BudgetInput {
  readonly maximum: string;
  readonly unit: (typeof budgetUnits)[number];
  readonly period: Budget['period'];
}

export const noBudget: BudgetInput = { maximum: '', unit: 'credits', period: 'month' };

const periods = [
  ['day', 'a day'],
  ['month', 'a month'],
  ['total', 'in total'],
] as const satisfies readonly (readonly [Budget['period'], string])[];

/** What the API is given for it; an empty one is no budget. */
export function toBudgets({ maximum, unit, period }: BudgetInput): Budget[] {
  return maximum === '' ? [] : [{ period, [unit]: Number(maximum) }];
}

interface Props {
  readonly value: BudgetInput;
  readonly error: string | undefined;
  readonly onInput: (value: BudgetInput) => void;
}

/** The most that a new key may use. */
export function BudgetField({ value, error, onInput }: Props) {
  return (
    <fieldset class="field">
      <legend>Budget</legend>
      <div class="budget-field">
        <input
          type="number"
          min="0"
          step="any"
          aria-label="At most"
          aria-invalid={error ? true : undefined}
          placeholder="No budget"
          value={value.maximum}
          onInput={({ currentTarget }) => onInput({ ...value, maximum: currentTarget.value })}
        />
        <select
          aria-label="Of what"
          value={value.unit}
          onChange={({ currentTarget }) => onInput({ ...value, unit: currentTarget.value as BudgetInput['unit'] })}
        >
          {budgetUnits.map((unit) => (
            <option key={unit}>{unit}</option>
          ))}
        </select>
        <select
          aria-label="In which period"
          value={value.period}
          onChange={({ currentTarget }) => onInput({ ...value, period: currentTarget.value as Budget['period'] })}
        >
          {periods.map(([period, text]) => (
            <option key={period} value={period}>
              {text}
            </option>
          ))}
        </select>
      </div>
      <p class="field-hint">When it is used up, model calls with the key are refused. Days and months are UTC.</p>
      {error && (
        <p class="field-error" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
