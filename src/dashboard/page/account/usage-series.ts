import type { UsageLine } from '../data/types.ts';

/** What a chart of usage shows. */
export const measures = {
  requests: { name: 'Requests', of: ({ requests }: UsageLine) => requests },
  tokens: { name: 'Tokens', of: (line: UsageLine) => line.input_tokens + line.output_tokens },
  credits: { name: 'Cost in credits', of: ({ credits }: UsageLine) => credits ?? 0 },
} as const;

export type Measure = keyof typeof measures;

/** What lines are told apart by, beside the day. */
export type Dimension = 'model' | 'key';

/** One model or key over time. */
export interface Series {
  readonly name: string;
  /** One for each day. */
  readonly values: readonly number[];
}

/** Any further ones are taken together: so many colours cannot be told apart. */
const maxSeries = 5;
const day = 86_400_000;

/** Every day from the first to the last, UTC. */
export function daysBetween(from: string, to: string): string[] {
  const count = (Date.parse(to) - Date.parse(from)) / day + 1;
  return Array.from({ length: count }, (_, i) => new Date(Date.parse(from) + i * day).toISOString().slice(0, 10));
}

/** What a line is of. */
export function groupOf(line: UsageLine, by: Dimension): string {
  return (by === 'model' ? line.model : line.api_key_id) ?? (by === 'model' ? 'No model' : 'No key');
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The largest first; what is beyond five stands together. */
export function seriesOf(
  lines: readonly UsageLine[],
  { days, by, measure }: { days: readonly string[]; by: Dimension; measure: Measure },
): Series[] {
  const index = new Map(days.map((name, i) => [name, i]));
  const byName = new Map<string, number[]>();
  for (const line of lines) {
    const i = index.get(line.day ?? '');
    if (i === undefined) continue;
    const name = groupOf(line, by);
    const values = byName.get(name) ?? days.map(() => 0);
    values[i] = (values[i] ?? 0) + measures[measure].of(line);
    byName.set(name, values);
  }
  const all = [...byName].map(([name, values]) => ({ name, values })).filter(({ values }) => sum(values) > 0);
  all.sort((a, b) => sum(b.values) - sum(a.values));
  if (all.length <= maxSeries) return all;
  const rest = all.slice(maxSeries - 1);
  const others = days.map((_, i) => sum(rest.map(({ values }) => values[i] ?? 0)));
  return [...all.slice(0, maxSeries - 1), { name: `${rest.length} others`, values: others }];
}
