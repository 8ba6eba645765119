import { expect } from 'chai';
import { searchedKey, ValueReader } from '../../../src/http/json/search.ts';

const keepLimit = 64 * 1024;
const content = searchedKey('content', '{"');

/** The values under `content`, read from pieces of the text that end where `cuts` says. */
function read(text: string | Buffer, cuts: readonly number[] = []): unknown[] {
  const bytes = Buffer.from(text);
  const values: unknown[] = [];
  const reader = new ValueReader(content, keepLimit, (value) => values.push(value));
  let start = 0;
  for (const end of [...cuts, bytes.length]) {
    reader.read(bytes.subarray(start, end));
    start = end;
  }
  expect(reader.hasLost).to.equal(false);
  return values;
}

const cases: Readonly<Record<string, readonly [text: string, values: unknown[]]>> = {
  escapes: [String.raw`{"content":"a\\","x":"\"content\":\"no\"","content" : "\"\\\"}\\"}`, ['a\\', '"\\"}\\']],
  'escaped surrogates': [String.raw`{"content":"\ud83d\ude00\ud83d","content":"\u0022"}`, ['😀\ud83d', '"']],
  'UTF-8 sequences': ['{"content":"é€😀","content":{"ключ":"日本"}}', ['é€😀', { ключ: '日本' }]],
  'nested objects': [
    '{"content":{"a":{"b":"}","c":[{"d":"{\\"}"}]},"content":"in"}, "content":\n\t{}}',
    [{ a: { b: '}', c: [{ d: '{"}' }] }, content: 'in' }, {}],
  ],
  'an event stream': [
    'data: {"content":"a"}\n\n: "conten\ndata: {"content":null}\n\ndata: {"content" \r\n:\t"b"}\n\n',
    ['a', 'b'],
  ],
  'what only looks like the key': [
    '["content","content" "content":"a", "con"content":"b", "content"content":"c","content":"content":"d"]',
    ['a', 'b', 'content'],
  ],
};

describe('the value reader', () => {
  for (const [what, [text, values]] of Object.entries(cases)) {
    it(`finds the same values however the bytes are cut: ${what}`, () => {
      const { length } = Buffer.from(text);
      expect(read(text)).to.deep.equal(values);
      for (let first = 0; first <= length; first += 1) {
        for (let second = first; second <= length; second += 1) {
          expect(read(text, [first, second]), `cut at ${first} and ${second}`).to.deep.equal(values);
        }
      }
      const everywhere = Array.from({ length }, (_, i) => i);
      expect(read(text, everywhere), 'byte for byte').to.deep.equal(values);
    });
  }

  it('reads a megabyte of long values byte by byte in less than 4 seconds of CPU time', () => {
    const long = 'x\\"é'.repeat(9_000);
    const text = Buffer.from(`data: {"content":${JSON.stringify({ a: long })}}\n\n`.repeat(16));
    expect(text.length).to.be.above(1_000_000);
    const everywhere = Array.from({ length: text.length }, (_, i) => i);
    const began = process.cpuUsage();
    const values = read(text, everywhere);
    const { user, system } = process.cpuUsage(began);
    expect(values).to.deep.equal(read(text));
    expect((user + system) / 1e6, 'CPU seconds').to.be.below(4);
  });

  it('drops a value beyond its limit, and finds the next one', () => {
    for (const size of [1, 1_000, keepLimit - 1]) {
      const values: unknown[] = [];
      const reader = new ValueReader(content, keepLimit, (value) => values.push(value));
      const bytes = Buffer.from(`{"content":"${'x'.repeat(2 * keepLimit)}","content":"next"}`);
      for (let at = 0; at < bytes.length; at += size) reader.read(bytes.subarray(at, at + size));
      expect([reader.hasLost, values], `pieces of ${size}`).to.deep.equal([true, ['next']]);
    }
  });
});
