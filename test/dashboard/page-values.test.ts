import { expect } from 'chai';
import { daysBetween, seriesOf } from '../../src/dashboard/page/account/usage-series.ts';
import { toOptions, toTexts } from '../../src/dashboard/page/webhooks/option-texts.ts';

const none = {
  input_tokens: 0,
  cached_input_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  images: 0,
  seconds: 0,
  characters: 0,
  uploaded_bytes: 0,
  downloaded_bytes: 0,
};
const line = (day: string, model: string | null, requests: number, credits?: number) => ({
  ...{ ...none, day, model, requests, input_tokens: 10 * requests },
  ...(credits !== undefined && { credits }),
});
const days = daysBetween('2026-02-27', '2026-03-01');

describe('the series of a chart of usage', () => {
  it('have a value for each day, across the end of a month, and come largest first', () => {
    expect(days).to.deep.equal(['2026-02-27', '2026-02-28', '2026-03-01']);
    const lines = [line('2026-02-27', 'a', 1), line('2026-03-01', 'b', 2), line('2026-03-01', null, 3)];
    expect(seriesOf(lines, { days, by: 'model', measure: 'tokens' })).to.deep.equal([
      { name: 'No model', values: [0, 0, 30] },
      { name: 'b', values: [0, 0, 20] },
      { name: 'a', values: [10, 0, 0] },
    ]);
  });

  it('leave out models without any of the shown measure', () => {
    const lines = [line('2026-02-27', 'priced', 1, 0.5), line('2026-02-27', 'free', 9)];
    expect(seriesOf(lines, { days, by: 'model', measure: 'credits' })).to.deep.equal([
      { name: 'priced', values: [0.5, 0, 0] },
    ]);
  });

  it('combine all beyond the four largest when there are more than five', () => {
    const lines = ['a', 'b', 'c', 'd', 'e', 'f'].map((model, i) => line('2026-02-28', model, 10 - i));
    const series = seriesOf(lines, { days, by: 'model', measure: 'requests' });
    expect(series.map(({ name }) => name)).to.deep.equal(['a', 'b', 'c', 'd', '2 others']);
    expect(series.at(-1)?.values).to.deep.equal([0, 11, 0]);
    expect(seriesOf(lines.slice(0, 5), { days, by: 'model', measure: 'requests' })).to.have.length(5);
  });
});

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
