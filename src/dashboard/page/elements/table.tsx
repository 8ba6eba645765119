import type { ComponentChildren } from 'preact';
import type { Query } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import { Tag } from './badge.tsx';
import { BackIcon, ForwardIcon } from './icons.tsx';
import { Empty, Loaded } from './states.tsx';

export interface Column<Row> {
  /** What stands above the column. */
  readonly head: ComponentChildren;
  readonly cell: (row: Row) => ComponentChildren;
  /** What stands before the cell where no heads are in sight, at the width of a phone; `true` for the head. */
  readonly name?: string | true;
  /** Of the cells. */
  readonly class?: string | ((row: Row) => string);
  readonly headClass?: string;
  /** A CSS length. */
  readonly width?: string;
  /** Whether its cells name their rows. */
  readonly scopes?: boolean;
}

/** A column of numbers or times. */
export function numbers<Row>(head: string, cell: Column<Row>['cell'], name: string | true = true): Column<Row> {
  return { head, name, class: 'numbers', cell };
}

/** As {@link numbers}, at the end of their columns, and without names. */
export function endNumbers<Row>(head: string, cell: Column<Row>['cell']): Column<Row> {
  return { head, headClass: 'cell-end', class: 'numbers cell-end', cell };
}

/** The column that says what each row is about. */
export function rowNames<Row>(head: string, cell: Column<Row>['cell']): Column<Row> {
  return { head, class: 'cell-main', scopes: true, cell };
}

/** Where there is nothing to show. */
export function None() {
  return <span class="muted">–</span>;
}

/** How rows of one kind are shown. */
export interface List<Row> {
  readonly kind: string;
  readonly caption?: string;
  /** Left out where null. */
  readonly columns: readonly (Column<Row> | null)[];
  readonly keyOf: (row: Row) => string;
  /** Whether it scrolls where the page is narrower: for a wide table without any controls. */
  readonly scrolls?: boolean;
}

interface TableProps<Row> extends List<Row> {
  readonly rows: readonly Row[];
  /** Stands where there is none: a text, or more. */
  readonly empty?: ComponentChildren;
}

/** Rows of one kind; at the width of a phone each is a small card. */
export function Table<Row>({ kind, caption, columns: all, rows, keyOf, scrolls, empty }: TableProps<Row>) {
  if (rows.length === 0 && empty) return typeof empty === 'string' ? <Empty title={empty} /> : empty;
  const columns = all.filter((column) => column !== null);
  const table = (
    <table class={`list ${kind}`}>
      {caption && <caption class="visually-hidden">{caption}</caption>}
      <thead>
        <tr>
          {columns.map(({ head, headClass, width }, i) => (
            <th key={i} scope="col" class={headClass} style={{ width }}>
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
  if (!scrolls) return table;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="scroll-x" tabIndex={0}>
      {table}
    </div>
  );
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
  const { head, cell, name, class: kind, scopes } = column;
  const Element = scopes ? 'th' : 'td';
  return (
    <Element scope={scopes ? 'row' : undefined} class={typeof kind === 'function' ? kind(row) : kind}>
      {name && <span class="cell-name">{name === true ? head : name} </span>}
      {cell(row)}
    </Element>
  );
}

interface RowNameProps {
  readonly to: readonly string[];
  readonly name: string;
  /** Whether it is only a test. */
  readonly test: boolean;
  readonly id: string;
}

/** The name and id of what a row is about; a click anywhere in the row opens it. */
export function RowName({ to, name, test, id }: RowNameProps) {
  return (
    <>
      <a class="row-link" href={href(to)}>
        {name}
      </a>
      {test && <Tag>test</Tag>}
      <code class="under">{id}</code>
    </>
  );
}

interface PagerProps {
  readonly route: Route;
  /** The id the next page follows; absent on the last one. */
  readonly next: string | undefined;
  /** What the first and the next page are called. @default those of a list that is newest first */
  readonly names?: { readonly first: string; readonly next: string };
}

/** Of a list that is not newest first. */
export const firstAndNext = { first: 'First', next: 'Next' };

/** One page at a time, however many there are; the place is in the address, so that going back works. */
export function Pager({ route, next, names = { first: 'Newest', next: 'Older' } }: PagerProps) {
  const { after, ...first } = route.query;
  if (!after && !next) return null;
  return (
    <nav class="line end pager" aria-label="Pages">
      {after && (
        <a class="button button-plain" href={href(route.path, first)}>
          <BackIcon />
          {names.first}
        </a>
      )}
      {next && (
        <a class="button button-plain" href={href(route.path, { ...first, after: next })}>
          {names.next}
          <ForwardIcon />
        </a>
      )}
    </nav>
  );
}

interface ListedProps<Row> extends Pick<TableProps<Row>, 'empty'> {
  readonly query: Query<{ readonly data: readonly Row[]; readonly has_more?: boolean }>;
  readonly list: List<Row>;
  /** Of a list with pages: the next one follows the key of its last row. */
  readonly pages?: Pick<PagerProps, 'route' | 'names'>;
}

/** What a query has listed, and the way to its other pages. */
export function Listed<Row>({ query, list, empty, pages }: ListedProps<Row>) {
  return (
    <Loaded query={query}>
      {({ data, has_more }) => {
        const last = data.at(-1);
        return (
          <>
            <Table {...list} rows={data} empty={empty} />
            {pages && last && <Pager {...pages} next={has_more ? list.keyOf(last) : undefined} />}
          </>
        );
      }}
    </Loaded>
  );
}
