import stringWidth from 'string-width';
import type { Paint, Style } from './terminal.ts';
import { figure, printable, printableLines } from './text.ts';

type Text = string | number;

/** A value and how it looks; a text may be of any origin. */
export type Cell = Text | { readonly text: Text; readonly style: Style };

/** What is not there is `-` in a table, and left out among fields. */
type Value = Cell | null | undefined;

export interface Column<Row> {
  readonly header: string;
  readonly cell: (row: Row, now: number) => Value;
  /** @default 'right' for numbers, 'left' for texts */
  readonly align?: 'right';
  /** The least it takes, for rows that are printed one at a time. @default 0 */
  readonly width?: number;
}

const shownOf = (cell: Cell): Text => (typeof cell === 'object' ? cell.text : cell);

function textOf(cell: Cell): string {
  const value = shownOf(cell);
  return typeof value === 'number' ? figure(value) : value;
}

/** @param text of the cell, or a part of it, padded or not */
function painted(cell: Cell, text: string, paint: Paint): string {
  return typeof cell === 'object' ? paint(cell.style, text) : text;
}

function pad(text: string, width: number, align: 'left' | 'right'): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return align === 'right' ? space + text : text + space;
}

/** Rows under their headers, columns two spaces apart; wide characters count as two, controls are shown as escapes. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  paint: Paint,
  now: number,
): string[] {
  const headers: Cell[] = columns.map(({ header }) => ({ text: header, style: 'dim' }));
  const lines = [headers, ...rows.map((row) => columns.map(({ cell }) => cell(row, now) ?? '-'))];
  const widths = columns.map(({ width = 0 }, i) =>
    Math.max(width, ...lines.map((cells) => stringWidth(printable(textOf(cells[i] ?? ''))))),
  );
  const alignments = columns.map(({ align }, i) => {
    const hasNumber = lines.some((cells) => typeof shownOf(cells[i] ?? '') === 'number');
    return align ?? (hasNumber ? 'right' : 'left');
  });
  const last = columns.length - 1;
  return lines.map((cells) =>
    cells
      .map((cell, i) => {
        const align = alignments[i] ?? 'left';
        const width = i === last && align === 'left' ? 0 : (widths[i] ?? 0);
        return painted(cell, pad(printable(textOf(cell)), width, align), paint);
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Makes the lines of a list: a table, or a sentence where it is empty. */
export function listLines<Row>(columns: readonly Column<Row>[], empty: string) {
  return ({ data }: { readonly data: readonly Row[] }, paint: Paint, now: number): string[] =>
    data.length > 0 ? tableLines(columns, data, paint, now) : [empty];
}

export type Fields = readonly (readonly [name: string, value: Value])[];

/** Lines of fields; a value of several lines hangs below its first. Fields without a value are left out. */
export function fieldLines(fields: Fields, paint: Paint): string[] {
  const present = fields.flatMap(([name, value]) => (value == null ? [] : [{ name: printable(name), value }]));
  const width = Math.max(...present.map(({ name }) => stringWidth(name))) + 2;
  return present.flatMap(({ name, value }) => {
    const title = paint('dim', pad(name, width, 'left'));
    return printableLines(textOf(value)).map((line, i) =>
      `${i === 0 ? title : ' '.repeat(width)}${painted(value, line, paint)}`.trimEnd(),
    );
  });
}

/** Makes the lines of one thing that has only fields. */
export function detailLines<Body>(fieldsOf: (body: Body, now: number) => Fields) {
  return (body: Body, paint: Paint, now: number): string[] => fieldLines(fieldsOf(body, now), paint);
}

/** The fields of a row that can be shown as they are. */
type Plain<Row> = keyof {
  [Name in keyof Row as string extends Name ? never : Row[Name] extends Value ? Name : never]: true;
};

/** What is shown of a thing, by its names: a field of it, or what is made of it. */
export type View<Row> = Readonly<Record<string, Plain<Row> | ((row: Row, now: number) => Value)>>;

function columnsOf<Row>(view: View<Row>): Column<Row>[] {
  return Object.entries(view).map(([header, shown]) => ({
    header,
    cell: typeof shown === 'function' ? shown : (row) => row[shown] as Value,
  }));
}

/** Makes the lines of a list: the names are its headers. @param empty what an empty list says */
export function tableOf<Row>(view: View<Row>, empty: string) {
  return listLines(
    columnsOf(view).map((column) => ({ ...column, header: column.header.toUpperCase() })),
    empty,
  );
}

/** Makes the lines of one thing. */
export function detailsOf<Row>(view: View<Row>) {
  return detailLines((row: Row, now) => columnsOf(view).map(({ header, cell }) => [header, cell(row, now)]));
}
