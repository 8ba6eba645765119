import stringWidth from 'string-width';
import type { Paint, Style } from './terminal.ts';
import { printable, printableLines } from './text.ts';

/** A value and how it looks; the text may be of any origin. */
export type Cell = string | { readonly text: string; readonly style: Style };

export interface Column<Row> {
  readonly header: string;
  readonly cell: (row: Row, now: number) => Cell;
  /** Numbers stand on the right. @default 'left' */
  readonly align?: 'right';
  /** The least it takes, for rows that are printed one at a time. @default 0 */
  readonly width?: number;
}

const textOf = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);

/** @param text of the cell, or a part of it, padded or not */
function painted(cell: Cell, text: string, paint: Paint): string {
  return typeof cell === 'string' ? text : paint(cell.style, text);
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
  const lines = [headers, ...rows.map((row) => columns.map(({ cell }) => cell(row, now)))];
  const widths = columns.map(({ width = 0 }, i) =>
    Math.max(width, ...lines.map((cells) => stringWidth(printable(textOf(cells[i] ?? ''))))),
  );
  const last = columns.length - 1;
  return lines.map((cells) =>
    cells
      .map((cell, i) => {
        const align = columns[i]?.align ?? 'left';
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

export type Fields = readonly (readonly [name: string, value: Cell | undefined])[];

/** Lines of fields; a value of several lines hangs below its first. Fields without a value are left out. */
export function fieldLines(fields: Fields, paint: Paint): string[] {
  const present = fields.flatMap(([name, value]) => (value === undefined ? [] : [{ name: printable(name), value }]));
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
