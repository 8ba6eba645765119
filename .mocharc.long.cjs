const { availableParallelism } = require('node:os');
const base = require('./.mocharc.cjs');

module.exports = {
  ...base,
  extension: ['long.test.ts'],
  ignore: ['test/hosts/**', 'test/deploy/image.long.test.ts', 'test/gateway/database/half-open.long.test.ts'],
  // a file starts browsers, clusters or processes of its own
  jobs: availableParallelism() + 1,
};
