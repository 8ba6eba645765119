import { expect } from 'chai';
import fc from 'fast-check';
import { isExactNumber } from '../../../src/http/json/exact-number.ts';
import { parseJson } from '../../../src/http/json/scan.ts';
import type { GatewayError } from '../../../src/index.ts';
import { serveSchema } from '../fake-edge.ts';

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
  let server: Awaited<ReturnType<typeof serveSchema>>;
  before(async () => {
    server = await serveSchema({});
  });
  after(() => server.close());

  it('may have any valid Unicode text and plain keys', async () => {
    const text = '{"a":["x","😀",{"b":null}],"c":1.5,"é":"\\n\\u007f"}';
    expect(await server.send(text)).to.deep.include({ status: 200, body: JSON.parse(text) });
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
    it(`does not include ${text}`, async () => {
      const { status, error } = await server.send(text);
      expect(status).to.equal(400);
      expect(error).to.include({ code, param });
    });
  }
});

const kept = [
  '0',
  '-0',
  '0.0',
  '0e999999999',
  '0.1',
  '-0.1',
  '1.0',
  '1.50',
  '1e3',
  '1E+3',
  '12.5e-1',
  '123456789012345',
  '9007199254740991',
  '9007199254740992',
  '-9007199254740992',
  '100000000000000000000',
  '1e21',
  '1.7976931348623157e308',
  '5e-324',
  '0.30000000000000004',
  `1${'0'.repeat(22)}`,
  `0.${'0'.repeat(999)}1e1000`,
  `1.${'0'.repeat(900)}`,
];
const changed = [
  '9007199254740993',
  '-9007199254740993',
  '1524831183200260097',
  '9007199254740993.0',
  '0.1000000000000000055',
  '3.14159265358979323846',
  '1e400',
  '-1e400',
  '1e999999999',
  '1e-400',
  '1e-999999999',
  '2e-324',
  '100000000000000000001',
  `1${'0'.repeat(23)}1`,
  `1.${'0'.repeat(900)}1`,
];

describe('a number in a body that is stored, signed or compared', () => {
  for (const literal of kept) {
    it(`is taken as ${literal.slice(0, 30)}`, () => {
      expect(isExactNumber(literal)).to.equal(true);
      expect(parseJson(Buffer.from(`{"data":{"id":${literal}}}`))).to.deep.equal({ data: { id: Number(literal) } });
    });
  }

  for (const literal of changed) {
    it(`is refused as ${literal.slice(0, 30)}`, () => {
      expect(isExactNumber(literal)).to.equal(false);
      try {
        parseJson(Buffer.from(`{"data":{"n":1,"items":[1,{},[],{"id":0.5,"n":${literal}},${literal}]}}`));
      } catch (error) {
        const { code, param, message } = error as GatewayError;
        expect({ code, param }).to.deep.equal({ code: 'number_not_exact', param: 'data.items[3].n' });
        return expect(message).to.include('send it as a string').and.not.include(literal);
      }
      expect.fail('it was taken');
    });
  }

  it('is taken in every form in which a double is written', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        for (const literal of [JSON.stringify(value), value.toExponential()]) {
          expect(isExactNumber(literal), literal).to.equal(true);
        }
      }),
    );
  });

  it('is taken or refused as its value in decimal says', () => {
    const literals = fc.tuple(fc.bigInt({ min: 0n, max: 10n ** 25n }), fc.integer({ min: 0, max: 30 }));
    fc.assert(
      fc.property(literals, ([whole, zeros]) => {
        const literal = `${whole}${'0'.repeat(zeros)}`;
        // the shortest digits of the double, as a whole number
        const [digits = '', exponent = '0'] = Number(literal).toExponential().split('e');
        const fraction = digits.split('.')[1] ?? '';
        const written =
          BigInt(digits.replace('.', '')) * 10n ** BigInt(Math.max(0, Number(exponent) - fraction.length));
        expect(isExactNumber(literal), literal).to.equal(written === BigInt(literal));
      }),
    );
  });

  it('costs no more for a giant exponent, nor for many digits', () => {
    const body = Buffer.from(`[${Array.from({ length: 20_000 }, () => '1e999999999').join()}]`);
    const startedAt = performance.now();
    expect(() => parseJson(body)).to.throw('[0]: has more digits');
    const digits = Buffer.from(`[${Array.from({ length: 250 }, () => `1.${'0'.repeat(999)}`).join()}]`);
    parseJson(digits);
    expect(performance.now() - startedAt).to.be.below(2_000);
  });

  it('is named without a path where it is the whole body', () => {
    try {
      parseJson(Buffer.from('9007199254740993'));
    } catch (error) {
      return expect(error).to.include({ code: 'number_not_exact', param: null });
    }
    expect.fail('it was taken');
  });
});
