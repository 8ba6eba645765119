import { expect } from 'chai';
import { type Column, fieldLines, tableLines } from '../../../src/cli/terminal/table.ts';
import { coloured, plain } from '../../../src/cli/terminal/terminal.ts';

interface Row {
  readonly name: string;
  readonly count: number;
  readonly note: string;
}

const columns: readonly Column<Row>[] = [
  { header: 'NAME', cell: ({ name }) => name },
  { header: 'COUNT', cell: ({ count }) => String(count), align: 'right' },
  { header: 'NOTE', cell: ({ note }) => ({ text: note, style: 'red' }) },
];

describe('a table', () => {
  it('aligns words on the left and numbers on the right', () => {
    const rows = [
      { name: 'first', count: 9, note: 'short' },
      { name: 'b', count: 1200, note: 'rather longer' },
    ];
    expect(tableLines(columns, rows, plain, 0)).to.deep.equal([
      'NAME   COUNT  NOTE',
      'first      9  short',
      'b       1200  rather longer',
    ]);
  });

  it('gives wide characters the two columns that they take', () => {
    const rows = [
      { name: '価格', count: 1, note: '' },
      { name: '👩‍🔧', count: 2, note: '' },
      { name: 'abcd', count: 3, note: '' },
    ];
    expect(tableLines(columns, rows, plain, 0).slice(1)).to.deep.equal(['価格      1', '👩‍🔧        2', 'abcd      3']);
  });

  it('keeps a row on one line whatever it contains', () => {
    const [, row] = tableLines(columns, [{ name: 'a\nb', count: 1, note: '\u001b[2J' }], plain, 0);
    expect(row).to.equal('a\\x0ab      1  \\x1b[2J');
  });

  it('has the same width in colour', () => {
    const [, row = ''] = tableLines(columns, [{ name: 'a', count: 1, note: 'x' }], coloured, 0);
    expect(row).to.equal('a         1  \u001b[31mx\u001b[39m');
  });
});

describe('fields', () => {
  it('indent further lines below the first, and omit absent values', () => {
    const fields = [
      ['Name', 'a'],
      ['Events', 'one\ntwo'],
      ['None', undefined],
    ] as const;
    expect(fieldLines(fields, plain)).to.deep.equal(['Name    a', 'Events  one', '        two']);
  });

  it('keep a value from imitating another field', () => {
    const lines = fieldLines(
      [
        ['Answer', 'x\nState   delivered'],
        ['State', 'failed'],
      ],
      plain,
    );
    expect(lines).to.deep.equal(['Answer  x', '        State   delivered', 'State   failed']);
  });
});
