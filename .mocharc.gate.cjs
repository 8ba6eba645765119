const long = require('./.mocharc.long.cjs');

module.exports = {
  ...long,
  spec: [
    'test/accounting/credits/ledger.long.test.ts',
    'test/accounting/credits/two-processes.long.test.ts',
    'test/cli/cli.long.test.ts',
    'test/dashboard/*.long.test.ts',
    'test/deploy/promtool.long.test.ts',
    'test/deploy/schemas.long.test.ts',
    'test/documentation/*.long.test.ts',
    'test/http/*.long.test.ts',
    'test/keys/*.long.test.ts',
    'test/killed/*.long.test.ts',
    'test/package/arrows.long.test.ts',
    'test/package/tarball.long.test.ts',
    'test/proxy/relay/*.long.test.ts',
    'test/security/requests/*.long.test.ts',
  ],
};
