import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  /** What stands above the column. */
  readonly head: ComponentChildren;
  readonly cell: (row: Row) => ComponentChildren;
  /** What stands before the cell where no heads are in sight, at the width of a phone. */
  readonly name?: string;
  /** Of the cells. */
  readonly class?: string | ((row: Row) => string);
  readonly headClass?: string;
  /** Whether its cells name their rows. */
  readonly scopes?: boolean;
}

interface Props<Row> {
  readonly kind: string;
  readonly caption?: string;
  /** Left out where null. */
  readonly columns: readonly (Column<Row> | null)[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
  const kind = typeof column.class === 'function' ? column.class(row) : column.class;
  const content = (
    <>
      {column.name && <span class="cell-name">{column.name} </span>}
      {column.cell(row)}
    </>
  );
  return column.scopes ? (
    <th scope="row" class={kind}>
      {content}
    </th>
  ) : (
    <td class={kind}>{content}</td>
  );
}

/** Rows of one kind; at the width of a phone each is a small card. */
export function Table<Row>({ kind, caption, columns: all, rows, keyOf }: Props<Row>) {
  const columns = all.filter((column) => column !== null);
  return (
    <table class={`list ${kind}`}>
      {caption && <caption class="visually-hidden">{caption}</caption>}
      <thead>
        <tr>
          {columns.map(({ head, headClass }, i) => (
            <th key={i} scope="col" class={headClass}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map((column, i) => (
              <Cell key={i} column={column} row={row} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
