import { expect } from 'chai';
import { type Column, fieldLines, tableLines } from '../../../src/cli/terminal/table.ts';
import { coloured, plain } from '../../../src/cli/terminal/terminal.ts';
import {
  localTime,
  momentOf,
  printable,
  printableLines,
  relative,
  spanOf,
  toJson,
} from '../../../src/cli/terminal/text.ts';

const attacks: readonly (readonly [name: string, text: string, shown: string])[] = [
  ['clears the screen', '\u001b[2J', '\\x1b[2J'],
  ['sets the title', '\u001b]0;title\u0007', '\\x1b]0;title\\x07'],
  ['writes to the clipboard', '\u001b]52;c;cm0gLXJm\u001b\\', '\\x1b]52;c;cm0gLXJm\\x1b\\'],
  ['uses an eight-bit control', '\u009b31m', '\\x9b31m'],
  ['goes back to the start of the line', 'failed\rdelivered', 'failed\\x0ddelivered'],
  ['rubs out', 'failed\b\b\u007f', 'failed\\x08\\x08\\x7f'],
  ['turns the direction of reading', 'abc\u202edef\u2066', 'abc\\u{202e}def\\u{2066}'],
  ['hides letters', 'a\u200bb\ufeff\u{e0041}', 'a\\u{200b}b\\u{feff}\\u{e0041}'],
  ['breaks a line by another character', 'a\u2028b\u0085c\nd', 'a\\u{2028}b\\x85c\\x0ad'],
  ['is half a character', '\ud800', '\\u{d800}'],
];

describe('text that a receiver answered', () => {
  for (const [name, text, shown] of attacks) {
    it(`is shown escaped when it ${name}`, () => {
      expect(printable(text)).to.equal(shown);
    });
  }

  it('stays unchanged in any language, emoji of several parts included', () => {
    const text = 'Größe 価格 السعر 👩‍🔧 नमस्ते';
    expect(printable(text)).to.equal(text);
  });

  it('keeps its line breaks where several lines fit', () => {
    expect(printableLines('one\r\ntwo\n\tthree\u001b')).to.deep.equal(['one', 'two', '    three\\x1b']);
  });
});

describe('JSON for a terminal', () => {
  it('is the same value, with control characters escaped', () => {
    for (const [, text] of attacks) {
      const json = toJson({ text });
      expect(JSON.parse(json)).to.deep.equal({ text });
      expect(json).to.not.match(/[\p{Cc}\u200b\u2028\u202e\u2066\ufeff]/u);
    }
  });
});

const now = Date.parse('2026-01-31T12:00:00Z');

describe('a time span', () => {
  for (const [ms, text] of [
    [0, '0ms'],
    [840.4, '840ms'],
    [59_999, '59s'],
    [60_000, '1m'],
    [2 * 3_600_000, '2h'],
    [47 * 3_600_000, '47h'],
    [48 * 3_600_000, '2d'],
  ] as const) {
    it(`of ${ms} ms reads ${text}`, () => {
      expect(spanOf(ms)).to.equal(text);
    });
  }
});

describe('a moment', () => {
  it('is shown relative to now', () => {
    expect(relative('2026-01-31T11:57:00Z', now)).to.equal('3m ago');
    expect(relative('2026-01-31T12:00:30Z', now)).to.equal('in 30s');
    expect(relative('2026-01-31T12:00:00.400Z', now)).to.equal('now');
  });

  it("is shown in the reader's time zone", () => {
    const zone = process.env.TZ;
    try {
      process.env.TZ = 'Asia/Kathmandu';
      expect(localTime('2026-01-31T20:05:09Z')).to.equal('2026-02-01 01:50:09');
      expect(momentOf('2026-01-31T11:00:00Z', now)).to.equal('2026-01-31 16:45:00 (1h ago)');
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
  });
});

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
