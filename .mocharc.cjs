const { quickFiles } = require('./test/support/test-files.cjs');

/** Files that are named on the command line run alone. */
const named = process.argv.slice(2).some((argument) => argument.endsWith('.test.ts'));

module.exports = {
  'node-option': ['import=tsx'],
  ...(!named && { spec: quickFiles }),
  require: ['test/support/mongo.ts'],
  reporter: 'test/support/reporter.ts',
  parallel: true,
  // more than the cores of a small machine, because many tests mostly wait; with four, tests that count writes see fewer share one
  jobs: 3,
  timeout: 60_000,
  exit: false,
};
