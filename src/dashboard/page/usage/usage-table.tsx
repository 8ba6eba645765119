import type { UsageLine } from '../api/types.ts';
import { type Column, Table } from '../elements/table.tsx';
import { amount } from '../format/number.ts';
import { AsTable } from '../stats/as-table.tsx';
import { type Dimension, groupOf, type Series } from './series.ts';

function numbers(name: string, of: (used: UsageLine) => number): Column<UsageLine> {
  return { head: name, headClass: 'cell-end', name, class: 'numbers cell-end', cell: (used) => amount(of(used)) };
}

const columns: readonly Column<UsageLine>[] = [
  numbers('Requests', ({ requests }) => requests),
  numbers('Tokens in', ({ input_tokens }) => input_tokens),
  numbers('Tokens out', ({ output_tokens }) => output_tokens),
];

const imageColumns: readonly Column<UsageLine>[] = [numbers('Images', ({ images }) => images)];

/** Shown where there is any: a part of the tokens out. */
const reasoningColumns: readonly Column<UsageLine>[] = [
  numbers('Reasoning', ({ reasoning_tokens }) => reasoning_tokens),
];

/** Shown where there is audio that is not counted in tokens. */
const audioColumns: readonly Column<UsageLine>[] = [
  numbers('Seconds', ({ seconds }) => seconds),
  numbers('Characters', ({ characters }) => characters),
];

/** Shown where something has a price. */
const costColumns: readonly Column<UsageLine>[] = [numbers('Credits', ({ credits }) => credits ?? 0)];

interface Props {
  readonly lines: readonly UsageLine[];
  readonly by: Dimension;
  readonly nameOf: (name: string) => string;
}

/** What each model or key used in all. */
export function UsageTable({ lines, by, nameOf }: Props) {
  const hasReasoning = lines.some(({ reasoning_tokens }) => reasoning_tokens > 0);
  const hasAudio = lines.some(({ seconds, characters }) => seconds + characters > 0);
  const hasCost = lines.some(({ credits }) => credits !== undefined);
  const name: Column<UsageLine> = {
    head: by === 'model' ? 'Model' : 'API key',
    scopes: true,
    class: 'cell-main',
    cell: (line) => <code>{nameOf(groupOf(line, by))}</code>,
  };
  const reasoning = hasReasoning ? reasoningColumns : [];
  const all = [
    name,
    ...columns,
    ...reasoning,
    ...imageColumns,
    ...(hasAudio ? audioColumns : []),
    ...(hasCost ? costColumns : []),
  ];
  return <Table kind="usage" columns={all} rows={lines} keyOf={(line) => groupOf(line, by)} />;
}

interface DaysProps {
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly nameOf: (name: string) => string;
}

/** The chart's numbers; days without any are left out. */
export function UsageByDay({ days, series, nameOf }: DaysProps) {
  const used = days.flatMap((day, i) => (series.some(({ values }) => (values[i] ?? 0) > 0) ? [{ day, i }] : []));
  return (
    <AsTable
      head={['Day, UTC', ...series.map(({ name }) => nameOf(name))]}
      rows={used.map(({ day, i }) => ({
        key: day,
        name: day,
        values: series.map(({ values }) => amount(values[i] ?? 0)),
      }))}
    />
  );
}
