import { expect } from 'chai';
import { toOptions, toTexts } from '../../src/dashboard/page/webhooks/option-texts.ts';

const empty = toTexts({});

describe('the options in the form of a webhook', () => {
  it('are sent as they are written', () => {
    const texts = { ...empty, rate_limit: '20', filters: 'data.id = 7, "7", seven' };
    expect(toOptions(texts)).to.deep.equal({ rate_limit: 20, filters: { 'data.id': [7, '7', 'seven'] } });
  });

  it('are refused with a rate limit that is no number, or that JSON would change', () => {
    for (const [rate_limit, code, says] of [
      ['many', 'invalid_type', 'rate_limit: must be a number'],
      ['0x10', 'invalid_type', 'rate_limit: must be a number'],
      [
        '1524831183200260097',
        'number_not_exact',
        'rate_limit: 1524831183200260097 has more digits than JSON numbers keep',
      ],
    ] as const) {
      expect(() => toOptions({ ...empty, rate_limit }))
        .to.throw(says)
        .that.includes({ code, param: 'rate_limit' });
    }
  });
});
