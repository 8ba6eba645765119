import { expect } from 'chai';
import { modelMatcher } from '../../../src/proxy/upstream.ts';

describe('a pattern for models with many wildcards', () => {
  for (const [title, pattern] of [
    ['a few', '*gpt*mini*'],
    ['a hundred', `${'*a'.repeat(100)}*c`],
    ['pairs of letters', `${'*ab'.repeat(50)}*c*`],
  ] as const) {
    it(`is matched within 100 ms of CPU time, whatever the name repeats: ${title}`, () => {
      const matches = modelMatcher([pattern]);
      const begun = process.cpuUsage();
      for (const model of ['gpt'.repeat(100_000), 'a'.repeat(300_000), 'ab'.repeat(150_000)]) {
        expect(matches(model)).to.equal(false);
      }
      const { user, system } = process.cpuUsage(begun);
      expect((user + system) / 1_000).to.be.lessThan(100);
    });
  }
});
