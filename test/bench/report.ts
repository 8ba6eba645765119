/** One figure of a benchmark, measured several times in one run. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly number[];
}

/** The middle value; the mean of the two middle ones where their number is even. */
export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** The value below which `p` percent lie, interpolated. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = ((sorted.length - 1) * p) / 100;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

function round(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** Prints a table of medians with their spread, then the same as one line a figure: `name: value unit`. */
export function report(title: string, figures: readonly Figure[]): void {
  const rows = figures.map(({ name, unit, values }) => [
    name,
    `${round(median(values))} ${unit}`,
    `${round(Math.min(...values))} to ${round(Math.max(...values))}`,
    String(values.length),
  ]);
  const header = ['figure', 'median', 'spread', 'runs'];
  const widths = header.map((text, i) => Math.max(text.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  console.log(`\n${title}\n`);
  console.log([line(header), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n'));
  console.log('');
  for (const { name, unit, values } of figures) console.log(`${name}: ${round(median(values))} ${unit}`);
}
