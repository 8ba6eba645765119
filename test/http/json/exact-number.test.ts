import { expect } from 'chai';
import fc from 'fast-check';
import { isExactNumber } from '../../../src/http/json/exact-number.ts';
import { parseJson } from '../../../src/http/json/scan.ts';
import type { GatewayError } from '../../../src/index.ts';

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
