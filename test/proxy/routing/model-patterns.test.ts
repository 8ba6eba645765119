import { expect } from 'chai';
import fc from 'fast-check';
import { createUpstream, modelMatcher } from '../../../src/proxy/upstream.ts';

/** Whether a text fits a pattern, from the definition alone: by all pairs of their beginnings. */
function fits(pattern: string, text: string): boolean {
  const ends = new Set([0]);
  for (const char of pattern) {
    const before = [...ends];
    ends.clear();
    for (const end of before) {
      if (char !== '*') {
        if (text[end] === char) ends.add(end + 1);
        continue;
      }
      for (let next = end; next <= text.length; next += 1) ends.add(next);
    }
  }
  return ends.has(text.length);
}

describe('the models of an upstream', () => {
  for (const [models, model, serves] of [
    [['*'], 'ft:m:acme::1', false],
    [['*', '*acme*', '*:1'], 'ft:m:acme::1', false],
    [['ft:m:*'], 'ft:m:acme::1', true],
    [['ft:*'], 'ft:m:acme::1', true],
    [['*', 'ft:m:acme::1'], 'ft:m:acme::1', true],
    [['*', 'ft:m:acme::1'], 'ft:m:acme::2', false],
    [['ft:*'], 'm', false],
    [['*'], 'ft-m', true],
  ] as const) {
    it(`${serves ? 'are' : 'are not'} with ${models.join(', ')}: ${model}`, async () => {
      const upstream = createUpstream({ name: 'one', baseUrl: 'http://127.0.0.1:9/v1', models: [...models] });
      expect(upstream.serves(model)).to.equal(serves);
      await upstream.close();
    });
  }

  it('are fine-tuned where an alias says so', async () => {
    const aliases = { ours: 'ft:m:acme::1' };
    const upstream = createUpstream({ name: 'one', baseUrl: 'http://127.0.0.1:9/v1', models: [], aliases });
    expect([upstream.serves('ours'), upstream.serves('ft:m:acme::1')]).to.deep.equal([true, false]);
    await upstream.close();
  });
});

describe('a pattern for models', () => {
  for (const [pattern, model, matches] of [
    ['gpt-5', 'gpt-5', true],
    ['gpt-5', 'gpt-50', false],
    ['gpt-*', 'gpt-', true],
    ['gpt-*', 'xgpt-5', false],
    ['*-mini', 'gpt-5-mini', true],
    ['*-mini', 'gpt-5-mini-2', false],
    ['*gpt*mini*', 'openai/gpt-5-mini-2026', true],
    ['*gpt*mini*', 'mini-gpt', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['ab*ba', 'aba', false],
    ['*ab*ab', 'ab', false],
    ['*', '', true],
    ['**', 'a', true],
    ['a**b', 'ab', true],
    ['a.c', 'abc', false],
    ['(a|b)+$', '(a|b)+$', true],
    ['a*', 'a\nb', true],
    ['[a-*]', '[a-z]', true],
    ['Gpt*', 'gpt', false],
    ['', '', true],
  ] as const) {
    it(`${JSON.stringify(pattern)} ${matches ? 'matches' : 'does not match'} ${JSON.stringify(model)}`, () => {
      expect(modelMatcher([pattern])(model)).to.equal(matches);
    });
  }

  it('matches where one of several does, and an empty list matches nothing', () => {
    expect(modelMatcher(['a', 'b*'])('bc')).to.equal(true);
    expect(modelMatcher(['a', 'b*'])('c')).to.equal(false);
    expect(modelMatcher([])('')).to.equal(false);
  });

  it('matches what its definition says, for any pattern and text', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 });
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '.'), maxLength: 8 });
    fc.assert(
      fc.property(pattern, letters, (given, text) => {
        expect(modelMatcher([given])(text)).to.equal(fits(given, text));
      }),
      { numRuns: 5_000 },
    );
  });
});

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
