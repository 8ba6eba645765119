import { expect } from 'chai';
import fc from 'fast-check';
import { lookAtJson, parseJson } from '../../src/http/parse-json.ts';
import { readModelBody } from '../../src/proxy/model-body.ts';

/** Text of every length around a limit or the size of a piece, with escapes, quotes and characters of several bytes. */
const longText = fc
  .tuple(
    fc.array(fc.constantFrom('plain words ', '"', '\\', '\n', '\u0001', 'é', '😀', '\ud800', 'a'.repeat(300)), {
      minLength: 1,
    }),
    fc.constantFrom(1, 40, 700, 4_000),
  )
  .map(([parts, times]) => parts.join('').repeat(times));

const prompt = fc.record({ model: fc.string(), text: longText, after: fc.jsonValue(), more: longText });

function outcome(run: () => unknown): string {
  try {
    run();
    return 'accepted';
  } catch (error) {
    return `${(error as { code: string }).code} ${(error as Error).message}`;
  }
}

/** The value with every string cut that the look cut. */
function cut(value: unknown): unknown {
  const text = JSON.stringify(value, (_, part) =>
    typeof part === 'string' && Buffer.byteLength(JSON.stringify(part)) > 256 ? '…' : part,
  );
  return JSON.parse(text);
}

describe('looking at a long body', () => {
  it('sees all of it but its long strings', () => {
    fc.assert(
      fc.property(prompt, ({ model, text, after, more }) => {
        const value = { model, text, list: [more, { after: cut(after) }] };
        const bytes = Buffer.from(JSON.stringify(value));
        const { value: seen, longStrings } = lookAtJson(bytes);
        expect(longStrings ? seen : cut(seen)).to.deep.equal(cut(value));
        for (const [start, end] of longStrings ?? []) {
          expect(JSON.parse(bytes.toString('utf8', start, end))).to.be.a('string');
        }
      }),
      { numRuns: 60 },
    );
  });

  it('takes and refuses what parsing it whole takes and refuses, in the same words', () => {
    const wrong = fc.constantFrom('"', '\\', '\n', '\0', '\\u12', '\\x', '{', '}', ',', ' ', '\x80', 'u', '');
    fc.assert(
      fc.property(prompt, wrong, fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(3), (value, stray, where, over) => {
        const bytes = Buffer.from(JSON.stringify(value));
        const at = Math.floor(where * bytes.length);
        const broken = Buffer.concat([bytes.subarray(0, at), Buffer.from(stray, 'latin1'), bytes.subarray(at + over)]);
        expect(outcome(() => lookAtJson(broken))).to.equal(outcome(() => parseJson(broken)));
      }),
      { numRuns: 150 },
    );
  });

  it('takes escapes and characters of several bytes wherever they stand', () => {
    for (let length = 32_740; length < 32_780; length += 1) {
      for (const tail of ['\\u00e9', '\\\\', '\\"', 'é', '😀']) {
        const bytes = Buffer.from(`{"a":"${'x'.repeat(length)}${tail}${'y'.repeat(40_000)}","b":1}`);
        expect(lookAtJson(bytes).value).to.deep.equal({ a: '…', b: 1 });
      }
    }
  });

  it('has the relay read the same values without looking into the long strings again', () => {
    fc.assert(
      fc.property(longText, fc.boolean(), (text, stream) => {
        const body = { messages: [{ content: text, model: 'inner' }], [text]: text, stream, model: text, n: 1 };
        const bytes = Buffer.from(JSON.stringify(body));
        const { writeModel: _, ...plain } = readModelBody(bytes);
        const { writeModel: __, ...helped } = readModelBody(bytes, lookAtJson(bytes).longStrings);
        expect(helped).to.deep.equal(plain);
      }),
      { numRuns: 30 },
    );
  });
});
