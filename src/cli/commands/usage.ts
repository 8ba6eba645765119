import { type Command, InvalidArgumentError } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand } from '../client/api-command.ts';
import { several } from '../client/flags.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';

type Line = Schemas['UsageLine'];
interface Options {
  readonly from?: string;
  readonly to?: string;
  readonly by: readonly string[];
}

const dimensions: Readonly<Record<string, Column<Line>>> = {
  day: { header: 'DAY', cell: ({ day }) => day ?? '' },
  model: { header: 'MODEL', cell: ({ model }) => model ?? '(none)' },
  key: { header: 'KEY', cell: ({ api_key_id: id }) => id ?? '(none)' },
};

function number(
  name:
    | 'requests'
    | 'input_tokens'
    | 'output_tokens'
    | 'reasoning_tokens'
    | 'images'
    | 'seconds'
    | 'characters'
    | 'uploaded_bytes'
    | 'downloaded_bytes',
): Column<Line> {
  return {
    header: name.replace('_', ' ').toUpperCase(),
    cell: (line) => line[name].toLocaleString('en-US'),
    align: 'right',
  };
}

const tokens = [number('requests'), number('input_tokens'), number('output_tokens')];
const reasoning = number('reasoning_tokens');
const images = number('images');
/** Shown where something has a price. */
const credits: Column<Line> = {
  header: 'CREDITS',
  cell: ({ credits }) => (credits ?? 0).toLocaleString('en-US', { maximumFractionDigits: 6 }),
  align: 'right',
};
const audio = [number('seconds'), number('characters')];
const files = [number('uploaded_bytes'), number('downloaded_bytes')];

function dimension(text: string, before?: readonly string[]): readonly string[] {
  const names = several(text, before);
  const unknown = names.find((name) => !(name in dimensions));
  if (unknown === undefined) return names;
  throw new InvalidArgumentError(`It must be some of ${Object.keys(dimensions).join(', ')}.`);
}

/** `usage`: what an account's model calls have used. */
export function usageCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'usage', "sum up what your account's model calls have used")
    .option('--from <day>', 'the first day, UTC, such as 2026-01-01; 30 days before the last when it is left out')
    .option('--to <day>', 'the last day, UTC; today when it is left out')
    .option(
      '--by <dimension>',
      'how lines are grouped: day, model, key, or several with commas; day by default',
      dimension,
    )
    .examples('usage', 'usage --from 2026-01-01 --to 2026-01-31 --by model,key')
    .runs(async ({ api, show }, { from, to, by = ['day'] }: Options) => {
      const query = { ...(from && { from }), ...(to && { to }), group_by: by.join(',') };
      const report = await dataFrom(api.GET('/v1/usage', { params: { query } }));
      const hasReasoning = report.data.some(({ reasoning_tokens }) => reasoning_tokens > 0);
      const hasAudio = report.data.some(({ seconds, characters }) => seconds + characters > 0);
      const hasFiles = report.data.some((line) => line.uploaded_bytes + line.downloaded_bytes > 0);
      const hasCost = report.data.some((line) => line.credits !== undefined);
      const columns = [
        ...by.flatMap((name) => dimensions[name] ?? []),
        ...[...tokens, ...(hasReasoning ? [reasoning] : []), images],
        ...[...(hasAudio ? audio : []), ...(hasFiles ? files : []), ...(hasCost ? [credits] : [])],
      ];
      show(report, listLines(columns, `Nothing was used from ${report.from} to ${report.to}.`));
      if (report.has_more) terminal.printNote('There is more: ask for fewer days with --from and --to.');
    });
}
