import { expect } from 'chai';
import { printable, printableLines, toJson } from '../../../src/cli/terminal/text.ts';

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
