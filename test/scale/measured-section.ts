import { markdownTable } from './markdown-table.ts';
import { deliveryFigures, type Measured, type Origin, readMeasured, relayFigures, type Spread } from './measured.ts';

function round(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

const withUnit = (text: string, unit: string) => (unit ? `${text} ${unit}` : text);
const cell = ({ median, low, high }: Spread, unit: string) =>
  `${withUnit(round(median), unit)} (${round(low)} to ${round(high)})`;

const origin = ({ date, commit, machine }: Origin) => `${date}, commit ${commit}, on ${machine}.`;

/** The columns of a table and the figures in each. */
interface Columns<Name extends string> {
  readonly corner: string;
  readonly columns: readonly { readonly head: string; readonly figures: Readonly<Record<Name, Spread>> }[];
}

function figuresTable<Name extends string>(
  labels: Readonly<Record<Name, readonly [string, string]>>,
  { corner, columns }: Columns<Name>,
): string {
  const names = Object.keys(labels) as Name[];
  const rows = names.map((name) => {
    const [label, unit] = labels[name];
    return [label, ...columns.map(({ figures }) => cell(figures[name], unit))];
  });
  return markdownTable([corner, ...columns.map(({ head }) => head)], rows);
}

/** What `npm run bench:scale -- --write` found, in Markdown. */
export function scaleSection({ scale }: Pick<Measured, 'scale'> = readMeasured()): string {
  const tables = [1, 10].map((webhooks) => {
    const rows = scale.deliveries.filter((row) => row.webhooks === webhooks);
    return figuresTable(deliveryFigures, {
      corner: `each event to ${webhooks === 1 ? 'one webhook' : `${webhooks} webhooks`}; gateway processes`,
      columns: rows.map(({ processes, figures }) => ({ head: String(processes), figures })),
    });
  });
  const relay = figuresTable(relayFigures, {
    corner: 'relayed chats, 64 connections; `WORKERS`',
    columns: scale.relay.map(({ workers, figures }) => ({ head: String(workers), figures })),
  });
  const rounds = scale.rounds === 1 ? 'One round' : `Medians of ${scale.rounds} rounds, lowest and highest in brackets`;
  const how = `${rounds}; each load takes ${scale.seconds} s.`;
  return [`${origin(scale)} ${how}`, ...tables, relay].join('\n\n');
}

/** What `npm run bench:soak -- --write` found, in Markdown. */
export function soakSection({ soak }: Pick<Measured, 'soak'> = readMeasured()): string {
  const { minutes, processes, rate, deliveries, series } = soak;
  const rows = series.map(({ name, unit, median, perHour, growth, allowed, isFlat }) => [
    name,
    withUnit(round(median), unit),
    withUnit(round(perHour), unit),
    withUnit(`${round(growth)} of ${round(allowed)}`, unit),
    isFlat ? 'yes' : 'no',
  ]);
  const header = ['second half', 'median', 'slope in an hour', 'grew, of what is allowed', 'flat'];
  const load = `${minutes} minutes, ${processes} gateway processes, ${round(rate)} deliveries a second, ${deliveries.toLocaleString('en')} in all.`;
  return `${origin(soak)} ${load}\n\n${markdownTable(header, rows)}`;
}
