/** Prints the capacity model: `npm run capacity -- --rates=2000,50000 --retention-days=7 --core-price=25`. */
import { parseArgs } from 'node:util';
import type { Assumptions } from './capacity.ts';
import { assumed, capacitySection } from './capacity-section.ts';

const flagOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const names = Object.keys(assumed) as (keyof Assumptions)[];
const options = Object.fromEntries([...names.map(flagOf), 'rates'].map((flag) => [flag, { type: 'string' as const }]));
const values: Readonly<Record<string, string | undefined>> = parseArgs({ options }).values;

function numbersOf(name: string, text: string): number[] {
  const numbers = text.split(',').map(Number);
  if (!numbers.every((number) => number > 0)) throw new TypeError(`--${name} takes positive numbers, not ${text}`);
  return numbers;
}

const given = { ...assumed };
for (const name of names) {
  const text = values[flagOf(name)];
  if (text !== undefined) Object.assign(given, { [name]: numbersOf(flagOf(name), text)[0] });
}
console.log(capacitySection(values.rates ? numbersOf('rates', values.rates) : undefined, given));
