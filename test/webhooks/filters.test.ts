import { expect } from 'chai';
import type { Filters } from '../../src/index.ts';
import { passes, storedFilters } from '../../src/webhooks/optional-fields.ts';

/** The error that these filters are refused with. */
function refusalOf(filters: unknown) {
  try {
    storedFilters(filters as Filters);
  } catch (error) {
    return error as Error;
  }
  throw new Error('they were not refused');
}

describe('the filters of a webhook', () => {
  const data = { model: 'gpt-5', amount: 20, paid: true, none: null, list: ['gpt-5'], customer: { country: 'de' } };
  const event = JSON.parse(JSON.stringify({ id: 'evt_1', type: 'payment.completed', data }));

  const cases: [what: string, filters: Filters, passed: boolean][] = [
    ['the value', { 'data.model': ['gpt-5'] }, true],
    ['one of the values', { 'data.model': ['gpt-4', 'gpt-5'] }, true],
    ['none of the values', { 'data.model': ['gpt-4'] }, false],
    ['a value that only begins alike', { 'data.model': ['gpt'] }, false],
    ['a value of another case', { 'data.model': ['GPT-5'] }, false],
    ['a number', { 'data.amount': [20] }, true],
    ['a number as a text', { 'data.amount': ['20'] }, false],
    ['a boolean', { 'data.paid': [true] }, true],
    ['the other boolean', { 'data.paid': [false] }, false],
    ['a field of an object', { 'data.customer.country': ['de', 'at'] }, true],
    ['every path', { 'data.model': ['gpt-5'], 'data.amount': [20] }, true],
    ['all paths but one', { 'data.model': ['gpt-5'], 'data.amount': [21] }, false],
    ['a path that the event does not have', { 'data.other': ['gpt-5'] }, false],
    ['a path through a text', { 'data.model.length': [5] }, false],
    ['a path through a list', { 'data.list.0': ['gpt-5'] }, false],
    ['a path through null', { 'data.none.x': ['gpt-5'] }, false],
    ['an object', { 'data.customer': ['[object Object]'] }, false],
    ['null', { 'data.none': ['null'] }, false],
    ['what every object inherits', { 'data.constructor.name': ['Object'] }, false],
    ['the prototype', { 'data.__proto__.model': ['gpt-5'] }, false],
  ];
  for (const [what, wanted, passed] of cases) {
    it(`${passed ? 'let through' : 'hold back'} an event with ${what}`, () => {
      expect(passes(JSON.parse(String(storedFilters(wanted))), event)).to.equal(passed);
    });
  }

  it('let every event through when there are none', () => {
    expect(storedFilters(null)).to.equal(null);
    expect(storedFilters({})).to.equal(null);
    expect(passes({}, event)).to.equal(true);
  });

  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`data.f${i}`, [i]]));
  const wrong: [what: string, value: unknown, code: string, param: string, says: string][] = [
    ['a list', ['data.model'], 'invalid_type', 'filters', '{"data.model": ["gpt-5"]}'],
    ['a text', 'data.model', 'invalid_type', 'filters', 'object'],
    ['eleven paths', eleven, 'invalid_value', 'filters', 'at most 10 paths'],
    [
      'a path outside the data',
      { model: ['gpt-5'] },
      'invalid_value',
      'filters',
      "'model' must be a path into the data",
    ],
    ['no field', { data: ['gpt-5'] }, 'invalid_value', 'filters', 'such as data.model'],
    ['an empty field', { 'data..model': ['x'] }, 'invalid_value', 'filters', 'such as data.model'],
    ['__proto__ as a path', JSON.parse('{"__proto__":["x"]}'), 'invalid_value', 'filters', "'__proto__'"],
    ['a path of 201 characters', { [`data.${'x'.repeat(196)}`]: ['x'] }, 'invalid_value', 'filters', '200 characters'],
    ['a value that is no list', { 'data.model': 'gpt-5' }, 'invalid_type', 'filters.data.model', 'array'],
    ['no values', { 'data.model': [] }, 'invalid_value', 'filters.data.model', '1 to 50 values'],
    ['51 values', { 'data.n': Array.from({ length: 51 }, (_, i) => i) }, 'invalid_value', 'filters.data.n', '1 to 50'],
    ['an object as a value', { 'data.model': ['x', { $ne: 1 }] }, 'invalid_type', 'filters.data.model[1]', 'string'],
    ['null as a value', { 'data.model': [null] }, 'invalid_type', 'filters.data.model[0]', 'boolean'],
    ['no finite number', { 'data.amount': [Number.NaN] }, 'invalid_type', 'filters.data.amount[0]', 'number'],
    ['a bigint', { 'data.id': [1, 9007199254740993n] }, 'invalid_type', 'filters.data.id[1]', 'send it as a string'],
    ['a long value', { 'data.model': ['x'.repeat(257)] }, 'invalid_value', 'filters.data.model[0]', '256 characters'],
    [
      'too much in all',
      { 'data.model': Array.from({ length: 20 }, (_, i) => String(i).padEnd(250, 'x')) },
      'invalid_value',
      'filters',
      'at most 4096 bytes as JSON',
    ],
  ];
  for (const [what, value, code, param, says] of wrong) {
    it(`are refused with ${what}, and the error names the fix: ${code}`, () => {
      const error = refusalOf(value);
      expect(error).to.include({ code, param, status: 400 });
      expect(error.message).to.include(says);
    });
  }
});
