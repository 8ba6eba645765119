import vm from 'node:vm';
import { expect } from 'chai';
import fc from 'fast-check';
import { jsonProblem } from '../../../src/events/catalogue.ts';

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i += 1) value = i % 2 ? [value] : { in: value };
  return value;
}

class Money {
  readonly amount = 25;
}

const loop: Record<string, unknown> = { list: [] };
(loop.list as unknown[]).push(loop);

// biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
const holed = [1, , 3];

const refused: readonly [what: string, value: unknown, path: string, problem: string][] = [
  ['undefined', undefined, 'data', 'is undefined'],
  ['an undefined field', { a: undefined }, 'data.a', 'is undefined'],
  ['undefined in a list', { a: [1, undefined] }, 'data.a[1]', 'is undefined'],
  ['a hole in a list', { a: holed }, 'data.a[1]', 'is undefined'],
  ['a function', { a: { b: () => 1 } }, 'data.a.b', 'is a function'],
  ['a toJSON method', { toJSON: () => 1 }, 'data.toJSON', 'is a function'],
  ['a symbol', { a: Symbol('x') }, 'data.a', 'is a symbol'],
  ['a symbol as a key', { a: { [Symbol('x')]: 1 } }, 'data.a', 'has a symbol as a key'],
  ['a BigInt', { a: 1n }, 'data.a', 'is a bigint, which cannot be sent as JSON: send it as a string'],
  ['NaN', { a: Number.NaN }, 'data.a', 'is NaN'],
  ['Infinity', [Number.POSITIVE_INFINITY], 'data[0]', 'is Infinity'],
  ['-Infinity', { a: Number.NEGATIVE_INFINITY }, 'data.a', 'is -Infinity'],
  ['a Date', { a: new Date(0) }, 'data.a', 'is a Date; pass a string such as date.toISOString()'],
  ['a Map', { a: new Map() }, 'data.a', 'is an instance of Map'],
  ['a Set', { a: new Set() }, 'data.a', 'is an instance of Set'],
  ['a Buffer', { a: Buffer.from('x') }, 'data.a', 'is an instance of Buffer'],
  ['a boxed number', { a: Object(5) }, 'data.a', 'is an instance of Number'],
  ['an Error', { a: new Error('x') }, 'data.a', 'is an instance of Error'],
  ["an instance of a host's class", { a: new Money() }, 'data.a', 'is an instance of Money'],
  ['a nameless class', { a: new (class {})() }, 'data.a', 'is an instance of a class'],
  ['an object with something inherited', { a: Object.create({ b: 1 }) }, 'data.a', 'is an instance of Object'],
  ['a cycle', loop, 'data.list[0]', 'contains itself'],
  ['a high surrogate alone', { a: 'x\ud83d' }, 'data.a', 'has half of a surrogate pair'],
  ['a low surrogate alone', { a: '\ude00x' }, 'data.a', 'has half of a surrogate pair'],
  ['half a pair in a name', { '\ud83d': 1 }, 'data["\\ud83d"]', 'has half of a surrogate pair in its name'],
  ['a NUL in a name', { 'a\0b': 1 }, 'data["a\\u0000b"]', 'has a NUL character in its name'],
];

describe('the check for values that JSON cannot carry unchanged', () => {
  for (const [what, value, path, problem] of refused) {
    it(`finds ${what}`, () => {
      const found = jsonProblem(value, 'data');
      expect(found?.path).to.equal(path);
      expect(found?.problem).to.contain(problem);
    });
  }

  it('writes a field name that is not an identifier in brackets', () => {
    expect(jsonProblem({ 'a b': { '0': undefined } }, 'data')?.path).to.equal('data["a b"]["0"]');
  });

  it('reports the first of several problems', () => {
    expect(jsonProblem({ fine: 1, first: 1n, second: Number.NaN }, 'data')?.path).to.equal('data.first');
  });

  it('accepts 100 levels of nesting and refuses 101', () => {
    expect(jsonProblem(nested(100), 'data')).to.equal(undefined);
    expect(jsonProblem(nested(101), 'data')?.problem).to.equal('is nested more than 100 levels deep');
  });

  it('refuses 100,000 levels of nesting without a stack overflow', () => {
    expect(jsonProblem(nested(100_000), 'data')?.problem).to.contain('nested');
  });

  it('accepts the same object in two places, which is not a cycle', () => {
    const shared = { a: 1 };
    expect(jsonProblem({ one: shared, two: [shared, shared] }, 'data')).to.equal(undefined);
  });

  it('accepts an object without a prototype and one from another realm', () => {
    const bare = Object.assign(Object.create(null), { a: 1 });
    expect(jsonProblem({ bare, foreign: vm.runInNewContext('({ list: [1, { a: null }] })') }, 'data')).to.equal(
      undefined,
    );
    expect(jsonProblem(vm.runInNewContext('new Date()'), 'data')?.problem).to.contain('is a Date');
  });

  it('accepts a string with NUL, emoji and escaped characters', () => {
    expect(jsonProblem({ text: 'a\0😀\u2028"\\' }, 'data')).to.equal(undefined);
  });

  it('accepts every value that JSON can hold', () => {
    fc.assert(fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => !jsonProblem(value, 'data')));
  });

  it('accepts no value that JSON would change', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withSparseArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        if (jsonProblem(value, 'data')) return;
        expect(JSON.parse(JSON.stringify(value))).to.deep.equal(withoutMinusZero(value));
      }),
    );
  });
});

/** -0 is the one number that JSON writes as another, which equals it. */
function withoutMinusZero(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutMinusZero);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutMinusZero(item)]));
  }
  return value === 0 ? 0 : value;
}
