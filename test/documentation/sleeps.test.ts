import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const tests = fileURLToPath(new URL('..', import.meta.url));
/** Benchmarks and faults run for a time: sleeps are what they are made of. */
const timed = /^(bench|faults)[/\\]/;
const call = /(?<!')\bsleep\(/;
const comment = /(^|\s)\/\/ \w/;

/** The lines of a source with a call of `sleep` and no comment, neither in the line nor in the one above. */
function unexplainedSleeps(source: string): number[] {
  const lines = source.split('\n');
  const isUnexplained = (i: number) =>
    call.test(lines[i] ?? '') && ![i, i - 1].some((at) => comment.test(lines[at] ?? ''));
  return [...lines.keys()].filter(isUnexplained).map((i) => i + 1);
}

describe('A test that sleeps', () => {
  it('says why it does not wait for a condition, in its line or the line above', () => {
    const files = readdirSync(tests, { recursive: true, encoding: 'utf8' }).filter(
      (file) => /\.[cm]?[jt]s$/.test(file) && !timed.test(file),
    );
    expect(files).to.have.length.above(300);
    const found = files.flatMap((file) =>
      unexplainedSleeps(readFileSync(join(tests, file), 'utf8')).map((line) => `test/${file}:${line}`),
    );
    expect(found).to.deep.equal([]);
  });

  it('is found where it gives no reason', () => {
    const pause = 'await sleep' + '(5);';
    expect(
      unexplainedSleeps(`// why\n${pause}\n${pause} // why\n\n${pause}\nawait Promise.all([sleep(5)]);`),
    ).to.deep.equal([5, 6]);
  });
});
