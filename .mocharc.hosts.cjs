const base = require('./.mocharc.cjs');

module.exports = {
  ...base,
  ignore: [],
  spec: ['test/hosts/*.test.ts', 'test/deploy/image.long.test.ts'],
  jobs: 2,
};
