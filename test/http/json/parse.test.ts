import { expect } from 'chai';
import fc from 'fast-check';
import { parseJson } from '../../../src/http/json/scan.ts';
import { checkStorableBody } from '../../../src/http/validation/check-request.ts';
import type { GatewayError } from '../../../src/index.ts';

function errorOf(run: () => unknown): Pick<GatewayError, 'code' | 'param' | 'message'> {
  try {
    run();
  } catch (error) {
    return error as GatewayError;
  }
  throw new Error('nothing was thrown');
}

const parse = (text: string | Buffer): unknown => parseJson(Buffer.from(text as string));

/** The path of a key that the parsing refuses for being there twice. */
function findDuplicateKey(text: string): string | null | undefined {
  try {
    parse(text);
  } catch (error) {
    const { code, param } = error as GatewayError;
    if (code === 'duplicate_parameter') return param;
    throw error;
  }
  return undefined;
}

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

describe('parsing a body', () => {
  it('returns the same value as JSON.parse', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(parse(text)).to.deep.equal(JSON.parse(text));
      }),
    );
  });

  it('accepts 100 levels of nesting and no more', () => {
    expect(parse(nested(100))).to.be.an('array');
    expect(errorOf(() => parse(nested(101))).code).to.equal('invalid_json');
    expect(errorOf(() => parse(`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`)).code).to.equal('invalid_json');
  });

  it('refuses 200,000 levels of nesting without a stack overflow', () => {
    expect(errorOf(() => parse(nested(200_000))).code).to.equal('invalid_json');
  });

  for (const text of [
    '',
    ' ',
    '{',
    '{"a":1,}',
    "{'a':1}",
    'NaN',
    '01',
    '{"a":1}x',
    '\u{feff}{}',
    'undefined',
    '"a\nb"',
  ]) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      expect(errorOf(() => parse(text)).code).to.equal('invalid_json');
    });
  }

  it('says where the text is wrong without quoting it', () => {
    const { message } = errorOf(() => parse('{"secret":"canary",}'));
    expect(message).to.equal('The body is not valid JSON: look at character 20').and.not.contain('canary');
  });

  for (const [name, bytes] of [
    ['a stray continuation byte', [0x22, 0x80, 0x22]],
    ['an overlong form', [0x22, 0xc0, 0xaf, 0x22]],
    ['a surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['UTF-16', [0xff, 0xfe, 0x7b, 0, 0x7d, 0]],
  ] as const) {
    it(`refuses ${name}, which is not UTF-8`, () => {
      expect(errorOf(() => parseJson(Buffer.from(bytes))).code).to.equal('invalid_encoding');
    });
  }
});

describe('finding a duplicate key', () => {
  for (const [text, path] of [
    ['{"a":1,"a":1}', 'a'],
    ['{"a":1,"\\u0061":2}', 'a'],
    ['{"x":{"b":1,"c":[1,{"d":1,"d":2}]}}', 'x.c[1].d'],
    ['[[{"a":1}],[{"a":1,"b":{},"a":2}]]', '[1][0].a'],
    ['{"":1,"":2}', ''],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"a" : "x\\"," , "b" : [ ] , "a" : 1}', 'a'],
  ] as const) {
    it(`finds it in ${text}`, () => {
      expect(findDuplicateKey(text)).to.equal(path);
    });
  }

  for (const text of [
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}',
    '["a","a"]',
    '{"a":"a","b":"a"}',
    '{"a\\\\":1,"a":2}',
    '"a"',
    '1',
  ]) {
    it(`finds none in ${text}`, () => {
      expect(findDuplicateKey(text)).to.equal(undefined);
    });
  }

  it('finds none in the output of JSON.stringify', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(findDuplicateKey(JSON.stringify(value, null, 1))).to.equal(undefined);
      }),
    );
  });

  it('finds a key of any object that is repeated at its end', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 });
    fc.assert(
      fc.property(object, (value) => {
        const key = JSON.stringify(Object.keys(value)[0]);
        const text = `${JSON.stringify(value).slice(0, -1)},${key}:0}`;
        expect(findDuplicateKey(text)).to.be.a('string');
      }),
    );
  });
});

describe('JSON that can be stored', () => {
  const check = (text: string): void => checkStorableBody(parse(text));

  it('may have any valid Unicode text and plain keys', () => {
    expect(() => check('{"a":["x","😀",{"b":null}],"c":1.5,"é":"\\n\\u007f"}')).not.to.throw();
  });

  for (const [text, code, param] of [
    ['{"a":{"b":["x","\\u0000"]}}', 'invalid_value', 'a.b[1]'],
    ['{"a":"\\ud83d"}', 'invalid_encoding', 'a'],
    ['{"a":"\\ude00\\ud83d"}', 'invalid_encoding', 'a'],
    ['"\\ud800"', 'invalid_encoding', null],
    ['{"a":{"\\u0000":1}}', 'invalid_value', 'a'],
    ['{"a":{"\\udfff":1}}', 'invalid_encoding', 'a'],
    ['{"a":[{"__proto__":{}}]}', 'unknown_parameter', 'a[0].__proto__'],
    ['{"constructor":{"prototype":1}}', 'unknown_parameter', 'constructor'],
    ['{"a":1,"a":2}', 'duplicate_parameter', 'a'],
  ] as const) {
    it(`does not include ${text}`, () => {
      expect(errorOf(() => check(text))).to.include({ code, param });
    });
  }
});
