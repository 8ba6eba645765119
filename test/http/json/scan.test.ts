import { expect } from 'chai';
import fc from 'fast-check';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { outline, parseJson } from '../../../src/http/json/scan.ts';
import { foldCase } from '../../../src/http/json/tokens.ts';
import { type SpecSchema, spec } from '../../support/openapi.ts';

const chat = bodyShape(spec, spec.components.schemas.ChatCompletionRequest as SpecSchema);
/** Describes nothing, so that nothing is kept or refused for its name. */
const nothing = bodyShape(spec, {});

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

async function outcome(run: () => unknown): Promise<string> {
  try {
    await run();
    return 'accepted';
  } catch (error) {
    return `${(error as { code: string }).code} ${(error as Error).message}`;
  }
}

async function refusal(body: unknown): Promise<unknown[]> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  try {
    await outline(Buffer.from(text), chat);
  } catch (error) {
    const { code, param } = error as { code: string; param: string };
    return [code, param];
  }
  return ['accepted'];
}

describe('scanning a relayed body', () => {
  it('accepts and refuses the same bodies as parsing, with the same error messages', async () => {
    const wrong = fc.constantFrom(
      '"',
      '\\',
      '\n',
      '\0',
      '\\u12',
      '\\x',
      '{',
      '}',
      ',',
      ' ',
      '\x80',
      'u',
      '',
      '-',
      '1e',
      '.',
    );
    await fc.assert(
      fc.asyncProperty(prompt, wrong, fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(3), async (...given) => {
        const [value, stray, where, over] = given;
        const bytes = Buffer.from(JSON.stringify(value));
        const at = Math.floor(where * bytes.length);
        const broken = Buffer.concat([bytes.subarray(0, at), Buffer.from(stray, 'latin1'), bytes.subarray(at + over)]);
        expect(await outcome(() => outline(broken, nothing))).to.equal(await outcome(() => parseJson(broken)));
      }),
      { numRuns: 150 },
    );
  });

  it('accepts what JSON.parse accepts, and nothing else', async () => {
    const piece = fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"a"',
        '"',
        '\\',
        '"\\u00e9"',
        '"\\ud800"',
        '"\t"',
        '-',
        '0',
        '01',
        '1.5',
        '1.',
        '1e9',
        '-0',
      ],
      ...[
        '1E+2',
        '.5',
        '+1',
        'true',
        'false',
        'null',
        'nul',
        'NaN',
        ' ',
        '\n',
        '\t',
        '\r',
        '\v',
        '\u00a0',
        '{"a":1}',
        '[1,2]',
        'é',
      ],
    );
    const isJson = (text: string): boolean => {
      try {
        JSON.parse(text);
        return true;
      } catch {
        return false;
      }
    };
    const text = fc.oneof(
      fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join('')),
      fc.array(piece, { maxLength: 4 }).map((pieces) => `[${pieces.join(',')}]`),
    );
    await fc.assert(
      fc.asyncProperty(text, async (candidate) => {
        const judged = await outcome(() => outline(Buffer.from(candidate), nothing));
        expect(judged === 'accepted', candidate).to.equal(isJson(candidate));
      }),
      { numRuns: 3_000 },
    );
  });

  it('finds the values that the schema describes, wherever they stand', async () => {
    await fc.assert(
      fc.asyncProperty(prompt, fc.constantFrom(undefined, 1, '\t'), async ({ text, after, more }, indent) => {
        const messages = [
          { role: 'user', content: text, x: after },
          { role: 'tool', content: [{ type: 't', text: more }] },
        ];
        const body = {
          x: more,
          messages,
          model: 'm',
          [text]: after,
          stream_options: { y: after, include_usage: true },
          n: 3,
        };
        const bytes = Buffer.from(JSON.stringify(body, null, indent));
        const { value, fields } = await outline(bytes, chat);
        const cut = (string: string) =>
          Buffer.byteLength(JSON.stringify(string)) > 64 ? '…' : JSON.parse(JSON.stringify(string));
        expect(value).to.deep.equal({
          messages: [
            { role: 'user', content: cut(text) },
            { role: 'tool', content: [{ type: 't', text: cut(more) }] },
          ],
          model: 'm',
          stream_options: { include_usage: true },
          n: 3,
        });
        const at = (path: string) => JSON.parse(bytes.toString('utf8', fields.get(path)?.start, fields.get(path)?.end));
        expect(at('model')).to.equal('m');
        expect(at('stream_options.include_usage')).to.equal(true);
        expect(at('n')).to.equal(3);
      }),
      { numRuns: 60 },
    );
  });

  it('reads escapes and multi-byte characters wherever they stand', async () => {
    for (let length = 32_740; length < 32_780; length += 1) {
      for (const tail of ['\\u00e9', '\\\\', '\\"', 'é', '😀']) {
        const bytes = Buffer.from(`{"x":"${'x'.repeat(length)}${tail}${'y'.repeat(40_000)}","n":1}`);
        expect((await outline(bytes, chat)).value).to.deep.equal({ n: 1 });
      }
    }
  });

  it('reads every one of 9,000 messages', async () => {
    const messages = Array.from({ length: 9_000 }, (_, i) => ({ role: `r${i}`, content: `${i} `.repeat(40) }));
    const { value } = await outline(Buffer.from(JSON.stringify({ messages })), chat);
    expect(value).to.deep.equal({ messages: messages.map(({ role }) => ({ role, content: '…' })) });
  });

  it('only counts the whole numbers of a long list, and keeps any other item', async () => {
    const embedding = bodyShape(spec, spec.components.schemas.EmbeddingRequest as SpecSchema);
    const input = [...Array(1_000).fill(12), 1.5, 7];
    const { value } = await outline(Buffer.from(JSON.stringify({ input })), embedding);
    expect((value as { input: number[] }).input[1_000]).to.equal(1.5);
    expect((value as { input: number[] }).input).to.have.lengthOf(1_002);
  });
});

describe('a key that differs only in case from one that the gateway reads', () => {
  for (const key of [
    'Model',
    'MODEL',
    'mode\\u004c',
    '\\u004dodel',
    'STREAM',
    '\u017ftream',
    '\\u017ftream',
    'N',
    'meſſages',
    'Max_Tokens',
  ]) {
    it(`is refused: ${key}`, async () => {
      const [code, param] = await refusal(`{"model":"cheap","messages":[{"role":"u"}],"${key}":"dear"}`);
      expect([code, param]).to.deep.equal(['unknown_parameter', JSON.parse(`"${key}"`)]);
    });
  }

  it('is refused where the Kelvin sign stands for a k', async () => {
    const shape = bodyShape(spec, { properties: { token: {} } });
    const scanned = await outcome(() => outline(Buffer.from('{"to\u212aen":1}'), shape));
    expect(scanned).to.contain('unknown_parameter');
  });

  it('is refused one level down, and before or after the other key', async () => {
    const options = '"stream_options":{"include_usage":false,"Include_Usage":true}';
    expect(await refusal(`{${options}}`)).to.deep.equal(['unknown_parameter', 'Include_Usage']);
    expect(await refusal('{"\u017ftream_options":{}}')).to.deep.equal(['unknown_parameter', '\u017ftream_options']);
    expect(await refusal({ Model: 'dear', model: 'cheap' })).to.deep.equal(['unknown_parameter', 'Model']);
  });

  it('is accepted inside a message, and so are unknown keys in any case', async () => {
    expect(await refusal({ messages: [{ Role: 'x', role: 'user', Model: 1 }], X: 1, x: 2, Modell: 3 })).to.deep.equal([
      'accepted',
    ]);
  });

  it('is recognised by the case folding of Unicode', () => {
    for (let code = 0; code < 0x1_0000; code += 1) {
      const char = String.fromCharCode(code);
      // simple case folding is what a regular expression with the flags iu goes by
      if (/^[a-z]$/iu.test(char)) expect(foldCase(char), code.toString(16)).to.match(/^[a-z]$/);
    }
  });
});
