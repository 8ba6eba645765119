const { readdirSync } = require('node:fs');

/**
 * Tests that wait and do little else. They are begun first, the last of them is over first: what comes next has the machine
 * nearly to itself.
 */
const waiting = [
  'mongo/connection/slow-database',
  'mongo/periodic',
  'deliveries/worker/quiet-watch',
  'deliveries/worker/stalled-sweep',
];

/** Tests that hold a time against a narrow bound, or count what a busy machine does in more steps; the most sensitive first. */
const timed = [
  'deliveries/worker/drain',
  'deliveries/attempt/unawaited-reads',
  'gateway/half-open',
  'deliveries/fan-out/fan-out',
  'deliveries/fan-out/fan-out-sweep',
  'gateway/credits',
  'keys/revoked',
  'keys/service',
  'deliveries/send/send',
  'deliveries/send/misbehaving',
  'deliveries/worker/waking',
  'deliveries/lists',
  'proxy/timeouts',
  'proxy/relay/faults',
  'proxy/relay/embedding-repair',
  'proxy/metering/value-reader',
  'proxy/request/model-body',
  'http/server/harden',
  'outbound/client',
  'mongo/clock',
  'security/early-disconnects',
];

/** Those that take longest, the longest first: begun late, one of them would run on alone. */
const long = [
  'package/tarball',
  'clients/clients',
  'deliveries/fan-out/event-first',
  'dashboard/views',
  'cli/mongo/embedded-mongo',
  'security/body-cost',
  'gateway/database-away',
  'security/database-away',
  'cli/cli',
  'deliveries/redeliver/recoveries/killed',
  'deliveries/redeliver/recoveries/recovery',
  'accounting/credits/stepped-down',
  'events/store/lost-answers',
  'accounting/credits/killed',
  'proxy/relay/aborted-streams',
  'deliveries/worker/processes',
  'proxy/relay/backpressure',
  'deliveries/interleavings/interleavings',
  'dashboard/deliveries',
  'gateway/stale-primary',
  'openapi/examples',
  'deliveries/redeliver/resend',
  'deliveries/worker/stopped-worker',
  'deliveries/attempt/record-agrees',
  'events/transactions/open-transactions',
  'mongo/build-indexes',
  'documentation/receivers',
  'http/target',
  'security/bad-input',
  'dashboard/webhooks',
  'accounting/usage/count',
];

const order = [...waiting, ...timed, ...long].map((name) => `test/${name}.test.ts`);
const place = (file) => (order.includes(file) ? order.indexOf(file) : order.length);

/** Every test file, in the order in which they are begun. */
function testFiles() {
  const files = readdirSync('test', { recursive: true }).map((file) => `test/${file.replaceAll('\\', '/')}`);
  return files.filter((file) => file.endsWith('.test.ts')).sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}

/** Files that are named on the command line run alone. */
const named = process.argv.slice(2).filter((argument) => argument.endsWith('.test.ts'));

module.exports = {
  'node-option': ['import=tsx'],
  ...(named.length === 0 && { spec: testFiles() }),
  require: ['test/support/mongo.ts'],
  reporter: 'test/support/reporter.ts',
  parallel: true,
  // more than the cores of a small machine, because many tests mostly wait; with four, tests that count writes see fewer share one
  jobs: 3,
  timeout: 60_000,
  exit: false,
};
