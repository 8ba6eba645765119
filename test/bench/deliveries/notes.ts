import type { Figure } from '../report.ts';

/** What has been measured so far. */
export interface Notes {
  add(name: string, unit: string, value: number): void;
  /** Several figures of one row, each with its unit. */
  addAll(row: string, unit: string, values: Readonly<Record<string, number>>): void;
  /** One figure in multiples of another, both measured in this round; nothing where one of them was not. */
  addRatio(name: string, of: string, to: string): void;
  figures(): Figure[];
}

export function createNotes(): Notes {
  const measured = new Map<string, { unit: string; values: number[] }>();
  const last = (name: string) => measured.get(name)?.values.at(-1);

  function add(name: string, unit: string, value: number): void {
    const figure = measured.get(name) ?? { unit, values: [] };
    figure.values.push(value);
    measured.set(name, figure);
    console.error(`  ${name}: ${value.toFixed(2)} ${unit}`);
  }

  return {
    add,
    addAll(row, unit, values) {
      for (const [what, value] of Object.entries(values)) add(`${row}, ${what}`, unit, value);
    },
    addRatio(name, of, to) {
      const [a, b] = [last(of), last(to)];
      if (a !== undefined && b !== undefined) add(name, 'times', a / b);
    },
    figures: () => [...measured].map(([name, figure]) => ({ name, ...figure })),
  };
}
