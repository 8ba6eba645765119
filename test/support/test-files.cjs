const { existsSync, readdirSync } = require('node:fs');

/**
 * Tests that start browsers, compilers, clusters or processes, try thousands of inputs or orders, or load a gateway for seconds:
 * `npm run test:long`.
 * The longest are first: begun late, one of them would run on alone.
 */
const long = [
  'dashboard/views',
  'openapi/schemathesis',
  'clients/clients',
  'cli/cli',
  'game-day/game-day',
  'dashboard/reference',
  'package/tarball',
  'dashboard/webhooks',
  'dashboard/deliveries',
  'dashboard/operator',
  'deliveries/worker/quiet-watch',
  'mongo/connection/slow-database',
  'gateway/database/half-open',
  'keys/revoked',
  'proxy/relay/backpressure',
  'security/bodies/body-memory',
  'security/spending/overdraft',
  'backup/file-copy',
  'backup/another-cluster',
  'backup/mongodump',
  'upgrade/rolling-upgrade',
  'openapi/spectral',
  'deliveries/fan-out/event-first',
  'cli/mongo/embedded-mongo',
  'security/host/embedded-mongo',
  'security/bodies/body-fuzz',
  'security/bodies/body-cost',
  'deliveries/redeliver/recoveries/recovery',
  'gateway/database/database-away',
  'security/host/database-away',
  'deliveries/redeliver/recoveries/killed',
  'accounting/credits/stepped-down',
  'events/store/lost-answers',
  'accounting/credits/killed',
  'proxy/relay/aborted-streams',
  'proxy/relay/endpoint-faults',
  'deliveries/worker/processes',
  'deliveries/interleavings/interleavings',
  'gateway/database/stale-primary',
  'deliveries/redeliver/resend',
  'deliveries/worker/stopped-worker',
  'deliveries/attempt/record-agrees',
  'events/transactions/open-transactions',
  'mongo/prepare-database',
  'documentation/receivers',
  'events/store/replaced-primary',
  'faults/cluster/cluster',
  'cli/commands/reseal',
  'cli/server/restarted-process',
  'cli/server/closing',
  'accounting/usage/killed-gateway',
  'accounting/usage/killed',
  'scale/sharded-cluster',
  'dashboard/sign-in',
  'dashboard/account',
  'documentation/shell',
  'security/requests/hostile-requests',
  'security/host/host-mistakes',
  'mongo/confirmed-reads',
  'security/host/downloaded-mongod',
  'deliveries/stale-primary',
  'cli/server/database-away',
  'http/with-express-4',
  'package/arrows',
  'package/host',
  'cli/server/signals',
  'cli/server/prepaid',
  'frameworks/javascript',
  'gateway/mounting/openai-operations',
  'security/sharing/list-costs',
  'security/sharing/shared-upstreams',
  'security/sharing/shared-places',
  'security/requests/bad-input',
  'deliveries/worker/workers',
  'accounting/usage/count',
  'accounting/credits/ledger',
  'webhooks/secrets/resealing',
  'gateway/mounting/in-front',
  'gateway/mounting/hosts',
  'cli/server/role',
  'cli/server/first-key',
  'deploy/promtool',
  'cli/server/processes',
  'keys/stale-primary',
  'webhooks/stale-primary',
];

/**
 * The first of `npm test`: those that mostly wait, those that hold a time against a bound or count what a busy machine does in more
 * steps, and those that take longest.
 */
const first = [
  'mongo/periodic',
  'deliveries/worker/stalled-sweep',
  'deliveries/worker/drain',
  'deliveries/attempt/unawaited-reads',
  'deliveries/fan-out/fan-out',
  'deliveries/fan-out/fan-out-sweep',
  'gateway/credits',
  'keys/service',
  'deliveries/send/send',
  'deliveries/send/misbehaving',
  'deliveries/worker/waking',
  'deliveries/lists',
  'proxy/timeouts',
  'proxy/relay/faults',
  'proxy/relay/response/embedding-repair',
  'proxy/metering/value-reader',
  'proxy/request/model-body',
  'http/server/harden',
  'outbound/client',
  'mongo/clock',
  'security/spending/early-disconnects',
  'openapi/examples',
  'http/request/target',
];

/** Those whose Python packages take minutes to install: `npm run test:frameworks`, which the gate runs after the long tests. */
const frameworks = ['frameworks/python/frameworks', 'frameworks/python/openai-operations'];

const fileOf = (name) => `test/${name}.test.ts`;
const longFiles = long.map(fileOf);
const firstFiles = first.map(fileOf);
const frameworkFiles = frameworks.map(fileOf);

for (const file of [...longFiles, ...firstFiles, ...frameworkFiles]) {
  if (!existsSync(file)) throw new Error(`test/support/test-files.cjs names ${file}, which does not exist`);
}

const all = readdirSync('test', { recursive: true })
  .map((file) => `test/${file.replaceAll('\\', '/')}`)
  .filter((file) => file.endsWith('.test.ts'))
  .sort();

module.exports = {
  longFiles,
  /** All others: `npm test`. */
  quickFiles: [...new Set([...firstFiles, ...all])].filter(
    (file) => !longFiles.includes(file) && !frameworkFiles.includes(file),
  ),
};
