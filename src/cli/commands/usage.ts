import type { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand } from '../client/api-command.ts';
import { severalOf } from '../client/flags.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure } from '../terminal/text.ts';

type Line = Schemas['UsageLine'];
const dimensions: Readonly<Record<string, Column<Line>>> = {
  day: { header: 'DAY', cell: ({ day }) => day ?? '' },
  model: { header: 'MODEL', cell: ({ model }) => model ?? '(none)' },
  key: { header: 'KEY', cell: ({ api_key_id: id }) => id ?? '(none)' },
};

type Amount = { [Name in keyof Line]-?: Line[Name] extends number ? Name : never }[keyof Line];

function amountColumn(name: Amount): Column<Line> {
  const header = name.replace('_', ' ').toUpperCase();
  return { header, cell: (line) => line[name].toLocaleString('en-US'), align: 'right' };
}

/** The amounts in the order of their columns, those of a group together: always, or where one of them is above 0. */
const groups: readonly { readonly names: readonly Amount[]; readonly always?: true }[] = [
  { names: ['requests', 'input_tokens', 'output_tokens'], always: true },
  { names: ['reasoning_tokens'] },
  { names: ['images'], always: true },
  { names: ['seconds', 'characters'] },
  { names: ['uploaded_bytes', 'downloaded_bytes'] },
];

function columnsOf(lines: readonly Line[], by: readonly string[]): Column<Line>[] {
  const isUsed = (name: Amount) => lines.some((line) => line[name] > 0);
  const shown = groups.filter(({ names, always }) => always || names.some(isUsed)).flatMap(({ names }) => names);
  const hasPrice = lines.some(({ credits }) => credits !== undefined);
  const columns = [...by.flatMap((name) => dimensions[name] ?? []), ...shown.map(amountColumn)];
  if (!hasPrice) return columns;
  return [...columns, { header: 'CREDITS', cell: ({ credits = 0 }) => figure(credits), align: 'right' }];
}

export function usageCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'usage', "sum up what your account's model calls have used")
    .option('--from <day>', 'the first day, UTC, such as 2026-01-01; 30 days before the last when it is left out')
    .option('--to <day>', 'the last day, UTC; today when it is left out')
    .option(
      '--by <dimension>',
      'how lines are grouped: day, model, key, or several with commas; day by default',
      severalOf(Object.keys(dimensions)),
    )
    .examples('usage', 'usage --from 2026-01-01 --to 2026-01-31 --by model,key')
    .runs(async ({ api, show }, { from, to, by = ['day'] }: { from?: string; to?: string; by?: string[] }) => {
      const query = { ...(from && { from }), ...(to && { to }), group_by: by.join(',') };
      const report = await dataFrom(api.GET('/v1/usage', { params: { query } }));
      show(report, listLines(columnsOf(report.data, by), `Nothing was used from ${report.from} to ${report.to}.`));
      if (report.has_more) terminal.printNote('There is more: ask for fewer days with --from and --to.');
    });
}
