import { refuse } from '../errors.ts';

/** The periods of budgets: a day and a month of the calendar, in UTC, or all time. */
const budgetPeriods = Object.freeze(['day', 'month', 'total'] as const);

export type BudgetPeriod = (typeof budgetPeriods)[number];

/** What a budget may have a maximum of. */
export const budgetUnits = Object.freeze(['tokens', 'requests', 'credits'] as const);

export type BudgetUnit = (typeof budgetUnits)[number];

/** The most that an API key or an account may use in a period. It has one maximum or more; each is checked separately. */
export interface Budget {
  readonly period: BudgetPeriod;
  /** Input and output together, 1 or more. @default no maximum */
  readonly tokens?: number;
  /** Answered model calls, 1 or more. @default no maximum */
  readonly requests?: number;
  /** By the prices of the option `credits`, counted to a millionth. @default no maximum */
  readonly credits?: number;
}

/** A budget, and what has been used of it. */
export interface BudgetUsage extends Budget {
  readonly used: Readonly<Record<BudgetUnit, number>>;
  /** When its period ends and the next one begins with nothing used; `null` for `total`. */
  readonly resetsAt: Date | null;
}

/** Checks the budgets of keys, and reads what has been used of them. */
export interface KeyBudgets {
  /** @throws GatewayError `invalid_value` for a budget that this gateway cannot count */
  check(budgets: readonly Budget[]): void;
  /** What keys of an account have used of their budgets, by the id of the key. */
  usage(
    userId: string,
    keys: readonly { readonly id: string; readonly budgets: readonly Budget[] }[],
  ): Promise<ReadonlyMap<string, readonly BudgetUsage[]>>;
}

const limits = {
  tokens: [1, 1_000_000_000_000_000],
  requests: [1, 1_000_000_000_000_000],
  credits: [0.000_001, 1_000_000_000],
} as const satisfies Record<BudgetUnit, readonly [number, number]>;

function checkMaximum(param: string, unit: BudgetUnit, maximum: unknown): void {
  const [min, max] = limits[unit];
  const isNumber = typeof maximum === 'number' && maximum >= min && maximum <= max;
  if (isNumber && (unit === 'credits' || Number.isInteger(maximum))) return;
  const number = unit === 'credits' ? 'number' : 'whole number';
  refuse('invalid_value', `${param}.${unit}`, `must be a ${number} from ${min} to ${max}`);
}

/**
 * Checks budgets, and copies what belongs to them.
 * @throws GatewayError `invalid_value`, naming the field as the HTTP API does
 */
export function toBudgets(given: unknown): Budget[] {
  if (!Array.isArray(given)) refuse('invalid_value', 'budgets', 'must be a list');
  const budgets = given.map((budget: unknown, i): Budget => {
    const param = `budgets[${i}]`;
    if (typeof budget !== 'object' || budget === null) refuse('invalid_value', param, 'must be an object');
    const { period, ...maxima } = budget as Budget;
    if (!budgetPeriods.includes(period))
      refuse('invalid_value', `${param}.period`, `must be one of ${budgetPeriods.join(', ')}`);
    if (given.findIndex((other) => other?.period === period) < i) {
      const problem = `there is a budget for ${period} already; put all its maxima into one`;
      refuse('invalid_value', `${param}.period`, problem);
    }
    for (const name of Object.keys(maxima)) {
      if (!budgetUnits.some((unit) => unit === name))
        refuse('invalid_value', `${param}.${name}`, 'is not part of a budget');
    }
    const units = budgetUnits.filter((unit) => maxima[unit] !== undefined);
    if (units.length === 0) refuse('invalid_value', param, `must have at least one of ${budgetUnits.join(', ')}`);
    for (const unit of units) checkMaximum(param, unit, maxima[unit]);
    return { period, ...Object.fromEntries(units.map((unit) => [unit, maxima[unit]])) };
  });
  return budgets.sort((a, b) => budgetPeriods.indexOf(a.period) - budgetPeriods.indexOf(b.period));
}

/** How budgets are stored, as the type of a field of a mongoose schema. */
export const storedBudgets = {
  type: [
    {
      _id: false,
      period: { type: String, enum: [...budgetPeriods], required: true },
      tokens: Number,
      requests: Number,
      credits: Number,
    },
  ],
  default: [],
};
