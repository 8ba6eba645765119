const { longFiles } = require('./test/support/test-files.cjs');

module.exports = { ...require('./.mocharc.cjs'), spec: longFiles };
