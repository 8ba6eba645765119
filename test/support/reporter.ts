import Mocha from 'mocha';

/** How many of the slowest tests are told. */
const slowest = 10;

/** Mocha's own report, and after it how long all of it took, and the slowest tests, in seconds. */
export default class SlowestReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const tests: { readonly title: string; readonly seconds: number }[] = [];
    runner.on(Mocha.Runner.constants.EVENT_TEST_END, (test) => {
      tests.push({ title: test.fullTitle(), seconds: (test.duration ?? 0) / 1_000 });
    });
    runner.once(Mocha.Runner.constants.EVENT_RUN_END, () => {
      tests.sort((a, b) => b.seconds - a.seconds);
      const took = Math.round((runner.stats?.duration ?? 0) / 1_000);
      console.log(`  ${tests.length} tests in ${took} s. The ${slowest} slowest:\n`);
      for (const { title, seconds } of tests.slice(0, slowest)) console.log(`    ${seconds.toFixed(1)} s  ${title}`);
    });
  }
}
