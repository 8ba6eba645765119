const { availableParallelism } = require('node:os');

/** Tests wait for timers and servers half of their time, so each core can have two files of them. */
module.exports = {
  'node-option': ['import=tsx'],
  extension: ['test.ts'],
  recursive: true,
  ignore: ['test/**/*.long.test.ts', 'test/frameworks/python/**'],
  require: ['test/support/mongo.ts'],
  reporter: 'test/support/reporter.ts',
  parallel: true,
  jobs: 2 * availableParallelism(),
  // a test waits for what it asks about: this is for one that hangs, on a machine with other work, too
  timeout: 180_000,
  exit: false,
};
