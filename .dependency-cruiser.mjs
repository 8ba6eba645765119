// @ts-check
// Which folder of src may import which, and which package belongs where: `npm run lint` holds every import to it.
//
// A folder stands for its files and all below it, less what has a row of its own; `**` takes that too.
// A folder imports itself freely. The rows read from the ground up: a row names folders that stand above it, so that
// no two folders need each other, and of a folder that stands below it single files only.

const base = 'errors.ts ids.ts logger.ts version.ts api.d.ts options';
/** A domain keeps collections, and has operations that http serves. */
const domain = `${base} mongo fairness http/budget-body.ts http/incoming-time.ts http/operation.ts http/principal.ts`;

/** @type {Record<string, string>} */
const arrows = {
  'errors.ts': '',
  'ids.ts': 'errors.ts',
  'logger.ts': 'errors.ts',
  'version.ts': '',
  'api.d.ts': '',
  statistics: '',
  options: 'errors.ts logger.ts http/principal.ts',
  openapi: base,
  tracing: 'version.ts',
  mongo: base,
  fairness: `${base} mongo`,
  outbound: base,

  'http/json': `${base} openapi http/operation.ts`,
  'http/body': `${base} openapi outbound/content-decoder.ts http/json
    http/operation.ts http/reply.ts http/request.ts http/route.ts`,
  'http/validation': `${base} openapi http/json http/body http/route.ts`,
  http: `${base} openapi fairness tracing http/json http/body http/validation`,

  stored: `${domain} http/json outbound
    proxy/admission.ts proxy/answer-body.ts proxy/call-deadline.ts proxy/failure.ts proxy/headers.ts
    proxy/model-body.ts proxy/retry.ts proxy/send-answer.ts proxy/upstream.ts proxy/upstream-request.ts
    proxy/upstream-state.ts proxy/usage-meter.ts proxy/usage-record.ts`,
  proxy: `${base} fairness tracing http/operation.ts http/principal.ts http/json/search.ts outbound stored`,

  'webhooks/health': `${domain} statistics`,
  'webhooks/secrets': `${base} mongo webhooks/model.ts webhooks/webhook.ts`,
  webhooks: `${domain} outbound/addresses.ts webhooks/secrets`,

  events: `${domain} openapi tracing`,

  'keys/authentication': `${base} mongo http/principal.ts keys/api-key.ts keys/model.ts`,
  keys: `${domain} events keys/authentication`,
  'accounting/usage': `${domain} events accounting/micro-credits.ts accounting/publish-or-log.ts`,
  'accounting/budgets': `${domain} accounting/usage accounting/micro-credits.ts`,
  'accounting/credits': `${domain} events
    accounting/micro-credits.ts accounting/publish-or-log.ts accounting/writer-turns.ts`,
  'accounting/limits': `${domain} events accounting/publish-or-log.ts`,
  'accounting/payments': `${domain} events accounting/writer-turns.ts`,
  accounting: `${domain} events proxy/admission.ts proxy/upstream.ts accounting/**`,

  deliveries: `${domain} tracing outbound events webhooks/webhook.ts webhooks/health/recorder.ts`,

  'admin/refusals': `${domain} statistics`,
  admin: `${domain} admin/refusals keys webhooks webhooks/health webhooks/secrets/rotation.ts
    accounting/micro-credits.ts accounting/usage accounting/budgets accounting/credits accounting/limits
    accounting/payments/model.ts events deliveries/model.ts stored/model.ts`,

  processes: `${domain} statistics proxy/observer.ts proxy/proxy.ts events/model.ts deliveries/model.ts deliveries/service.ts`,

  receiver: 'api.d.ts deliveries/signature.ts webhooks/secrets/pasted-secret.ts',
  'dashboard/page': 'api.d.ts http/json/exact-number.ts',
  dashboard: 'errors.ts version.ts options http',

  metrics: `${base} statistics mongo/connection/pools.ts mongo/periodic.ts http/operation.ts webhooks/health/recorder.ts
    accounting/credits/credit-observer.ts processes/backlog.ts deliveries/claims.ts
    deliveries/fan-out.ts proxy/proxy.ts proxy/observer.ts`,

  // These join the folders. The command uses the package as a host does.
  gateway: `${base} statistics openapi fairness mongo outbound http/** proxy/** webhooks/** events
    keys/** accounting/** stored deliveries admin/** processes metrics dashboard`,
  '.': `${base} openapi mongo http/** webhooks/** events keys/** accounting/** deliveries admin/** processes
    metrics gateway`,

  'cli/terminal': '',
  'cli/config': 'errors.ts options cli/private-file.ts',
  'cli/client': `api.d.ts version.ts http/json/exact-number.ts http/json/parse.ts
    cli/terminal cli/config/duration.ts`,
  'cli/demo': '',
  'cli/mongo': 'cli/private-file.ts',
  'cli/database': `errors.ts index.ts gateway/migrate.ts mongo cli/config cli/mongo
    cli/client/api.ts cli/commands/events/publish.ts`,
  'cli/doctor/checks': `${base} gateway/collections.ts mongo outbound webhooks/model.ts webhooks/secrets processes/model.ts
    cli/doctor/check.ts`,
  'cli/doctor': `${base} gateway/collections.ts mongo cli/config cli/database cli/doctor/checks`,
  'cli/server': `errors.ts ids.ts index.ts receiver
    cli/terminal cli/config cli/demo cli/mongo cli/database`,
  'cli/commands': 'api.d.ts version.ts options/accounts/budgets.ts cli/terminal cli/client cli/config/duration.ts',
  'cli/commands/keys/command.ts': 'cli/terminal cli/client cli/commands cli/database/stored-keys.ts',
  'cli/commands/listen/forward.ts': `version.ts cli/terminal cli/client cli/commands/listen/follow-events.ts
    deliveries/send.ts`,
  'cli/commands/listen/listen.ts': `cli/terminal cli/client cli/config/parsers.ts cli/server/test-receiver.ts
    webhooks/secrets/pasted-secret.ts cli/commands/listen/forward.ts`,
  'cli/commands/doctor.ts': 'cli/terminal cli/doctor',
  'cli/commands/migrate.ts': 'gateway/migrate.ts cli/terminal cli/database/stored-schema.ts',
  'cli/commands/reseal.ts': 'errors.ts cli/terminal cli/config cli/database/beside-gateway.ts',
  'cli/commands/start.ts': 'cli/terminal cli/config cli/server',
  cli: 'errors.ts version.ts cli/terminal cli/client cli/database cli/commands/**',
};

/** Which files of src may import a package; one that is not named, none may. @type {Record<string, string>} */
const packages = {
  '@agendajs/mongo-backend': 'mongo/agenda.ts',
  '@opentelemetry/api': 'tracing',
  agenda: 'mongo/agenda.ts',
  ajv: 'http/validation events/catalogue.ts',
  'ajv-formats': 'http/validation events/catalogue.ts',
  axios: 'outbound deliveries/send.ts',
  commander: 'cli cli/client cli/commands/**',
  cors: 'cli/server',
  esbuild: 'bundle.mjs',
  express: 'http http/validation dashboard cli/server',
  'express-openapi-validator': 'http/validation',
  helmet: 'dashboard cli/server',
  'ipaddr.js': 'outbound/addresses.ts',
  'js-yaml': 'openapi/read-document.ts bundle.mjs',
  leven: 'cli/config',
  mongodb: 'cli/mongo',
  'mongodb-memory-server-core': 'cli/mongo',
  // Its types, that is: who may run it is a rule of its own below, and which types, biome.json says.
  mongoose:
    '. gateway options mongo fairness admin/** processes stored webhooks/** events keys accounting/** deliveries cli/doctor/**',
  'openapi-fetch': 'cli/client dashboard/page',
  pino: 'cli/server',
  preact: 'dashboard/page',
  'rate-limiter-flexible': 'http/api.ts',
  'prom-client': 'gateway metrics',
  'raw-body': 'receiver',
  'string-width': 'cli/terminal',
  'swagger-ui-dist': 'dashboard/page',
  undici: 'outbound deliveries/send.ts',
  zod: 'cli/config',
};

/** @param {string} names */
const listOf = (names) => names.split(/\s+/).filter(Boolean);

const rows = Object.keys(arrows);
for (const [row, targets] of Object.entries(arrows)) {
  for (const target of listOf(targets).filter((name) => !name.endsWith('.ts'))) {
    const at = rows.indexOf(target.replace('/**', ''));
    if (at < 0 || at > rows.indexOf(row)) throw new Error(`${row} may import ${target}: give it a row above ${row}`);
  }
}

/** @param {string} text */
const literally = (text) => text.replaceAll('.', '\\.');

/** The files that a name of the tables means, as a regular expression. @param {string} name */
function filesOf(name) {
  const folder = name === '.' ? '' : `${name}/`;
  if (name.endsWith('/**')) return `^src/${literally(name.slice(0, -2))}`;
  if (/\.(ts|mjs)$/.test(name)) return `^src/${literally(name)}$`;
  const inside = rows.filter((row) => row !== '.' && row.startsWith(folder)).map((row) => row.slice(folder.length));
  const others = inside.map((row) => literally(row) + (row.endsWith('.ts') ? '$' : '/'));
  if (name === '.') others.push('.+/');
  return `^src/${folder}${others.length > 0 ? `(?!${others.join('|')})` : ''}`;
}

/** The files of a package, or of its types. @param {string} name */
const packageFiles = (name) => `node_modules/(@types/)?${literally(name)}/`;

/**
 * @typedef {import('dependency-cruiser').IRegularForbiddenRuleType} Rule
 * @param {string} name
 * @param {string} comment
 * @param {Rule['from']} from
 * @param {Rule['to']} to
 * @returns {Rule}
 */
const forbid = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    ...Object.entries(arrows).map(([row, targets]) =>
      forbid(
        row,
        `${row} may import ${listOf(targets).join(', ') || 'nothing'}`,
        { path: filesOf(row) },
        { pathNot: [...[row, ...listOf(targets)].map(filesOf), 'node_modules/'], dependencyTypesNot: ['core'] },
      ),
    ),
    forbid(
      'folder without a row',
      'a new folder gets a row in .dependency-cruiser.mjs',
      { path: '^src/', pathNot: rows.map(filesOf) },
      {},
    ),
    ...Object.entries(packages).map(([name, files]) =>
      forbid(
        `package ${name}`,
        `${name} belongs to ${listOf(files).join(', ')}`,
        { path: '^src/', pathNot: listOf(files).map(filesOf) },
        { path: packageFiles(name) },
      ),
    ),
    forbid(
      'package without a row',
      'a new package gets a row in .dependency-cruiser.mjs',
      { path: '^src/' },
      { path: 'node_modules/', pathNot: Object.keys(packages).map(packageFiles) },
    ),
    forbid(
      'mongoose beyond its types',
      'mongoose belongs to */model.ts, and to the files of mongo that wrap it',
      {
        path: '^src/',
        pathNot: ['/model\\.ts$', '^src/mongo/(writes|connection/connection|in-account-after|agenda)\\.ts$'],
      },
      { path: packageFiles('mongoose'), dependencyTypesNot: ['type-only'] },
    ),
    forbid(
      'cycle',
      "files that import each other, or each other's types, are one file, or miss a third",
      { path: '^src/' },
      { circular: true },
    ),
  ],
  options: {
    // `import type` is an arrow too.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
  },
};
