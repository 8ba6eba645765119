// @ts-check
// Which folder of src may import which, which package belongs where, and what tests may import of it: `npm run lint` holds every import
// to it.
//
// A folder stands for its files and all below it, less what has a row of its own; `**` takes that too.
// A folder imports itself freely. The rows read from the ground up: a row names folders that stand above it, so that
// no two folders need each other, and of a folder that stands below it single files only.

import { readFileSync } from 'node:fs';
import { known, pure } from './test/imports.mjs';

const base = 'errors.ts ids.ts pending-work.ts version.ts api.d.ts options';
/** A domain keeps collections, and has operations that http serves. */
const domain = `${base} mongo fairness http/budget-body.ts http/incoming-time.ts http/operation.ts`;

/** @type {Record<string, string>} */
const arrows = {
  'errors.ts': '',
  'ids.ts': 'errors.ts',
  'pending-work.ts': '',
  'version.ts': '',
  'api.d.ts': '',
  tracing: 'version.ts',
  options: 'errors.ts',
  openapi: base,
  mongo: base,
  fairness: `${base} mongo`,
  outbound: base,

  'http/json': `${base} openapi http/operation.ts`,
  'http/body': `${base} openapi fairness outbound/content-decoder.ts http/json
    http/operation.ts http/reply.ts http/request.ts http/router.ts`,
  'http/validation': `${base} openapi http/json http/body http/router.ts`,
  http: `${base} openapi fairness tracing http/json http/body http/validation`,

  proxy: `${base} fairness tracing http/operation.ts http/json/search.ts outbound`,
  'proxy/proxy.ts': `${base} http/operation.ts proxy`,
  stored: `${domain} http/json outbound proxy`,

  // A call over HTTP runs none of it, unless it prepares a realtime session.
  sockets: `${base} openapi fairness tracing http http/json outbound proxy stored`,

  // What attempts say of a webhook is recorded without its registration, and the registration does not ask how it fares.
  'webhooks/recorder.ts': `${domain} webhooks/model.ts`,
  'webhooks/service.ts': `${domain} webhooks/model.ts webhooks/optional-fields.ts webhooks/rotation.ts webhooks/secrets.ts
    webhooks/subscribers.ts webhooks/url.ts webhooks/webhook.ts`,
  webhooks: `${domain} outbound/addresses.ts webhooks/recorder.ts webhooks/service.ts`,

  events: `${domain} tracing openapi webhooks/webhook.ts`,

  keys: `${domain} events`,
  // It books entries, and knows nothing of calls and payments.
  'accounting/ledger.ts': `${domain} events accounting/model.ts accounting/price.ts accounting/publish-or-log.ts`,
  accounting: `${domain} events proxy/admission.ts proxy/upstream.ts accounting/ledger.ts`,

  deliveries: `${domain} tracing outbound events webhooks/webhook.ts webhooks/recorder.ts`,

  operator: `${domain} http/operation.ts proxy/proxy.ts proxy/hooks.ts keys accounting
    webhooks webhooks/recorder.ts events deliveries stored/model.ts`,

  receiver: 'api.d.ts deliveries/signature.ts webhooks/pasted-secret.ts',
  'dashboard/page': 'api.d.ts http/json/exact-number.ts openapi/described-code.ts',
  dashboard: 'errors.ts version.ts options openapi http',

  // These join the folders. The command uses the package as a host does.
  gateway: `${base} openapi fairness mongo outbound http/** proxy/** sockets webhooks webhooks/recorder.ts webhooks/service.ts events
    keys accounting stored deliveries operator dashboard`,
  '.': `${base} openapi mongo http/** sockets webhooks webhooks/recorder.ts webhooks/service.ts events keys accounting deliveries operator gateway`,

  'cli/terminal': '',
  'cli/config': 'errors.ts options cli/private-file.ts',
  'cli/client': `api.d.ts version.ts openapi http/json/exact-number.ts http/json/scan.ts
    cli/terminal options/kinds.ts`,
  'cli/demo': '',
  'cli/mongo': 'cli/cache-folder.ts cli/private-file.ts',
  'cli/database': 'errors.ts index.ts mongo keys/routes.ts cli/config cli/mongo cli/client/api.ts',
  'cli/doctor': `${base} gateway/collections.ts mongo outbound webhooks/model.ts webhooks/secrets.ts operator/backlog.ts operator/model.ts
    cli/config cli/database`,
  'cli/server': `errors.ts ids.ts index.ts receiver
    options/kinds.ts cli/terminal cli/config cli/demo cli/mongo cli/database`,
  'cli/commands': 'api.d.ts version.ts options/budgets.ts options/kinds.ts cli/terminal cli/client',
  'cli/commands/events.ts': 'cli/terminal cli/client cli/database/stored.ts',
  'cli/commands/keys.ts': 'cli/terminal cli/client cli/commands cli/database/stored.ts',
  'cli/commands/resources.ts': 'cli/terminal cli/client cli/commands cli/commands/events.ts cli/commands/keys.ts',
  'cli/commands/listen.ts': `version.ts options/kinds.ts cli/terminal cli/client cli/server/test-receiver.ts
    deliveries/signature.ts webhooks/pasted-secret.ts`,
  'cli/commands/doctor.ts': 'openapi cli/terminal cli/doctor',
  'cli/commands/migrate.ts': 'gateway/migrate.ts cli/terminal cli/config cli/database/database.ts',
  'cli/commands/reseal.ts': 'errors.ts cli/terminal cli/config cli/database/database.ts',
  'cli/commands/start.ts': 'cli/terminal cli/config cli/server',
  cli: 'errors.ts version.ts cli/terminal cli/client cli/commands/**',
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
    '. gateway options mongo fairness stored webhooks webhooks/recorder.ts webhooks/service.ts events keys accounting/ledger.ts accounting deliveries operator cli/doctor/**',
  'openapi-fetch': 'cli/client dashboard/page',
  pino: 'cli/server',
  preact: 'dashboard/page',
  'prom-client': 'gateway operator',
  'string-width': 'cli/terminal',
  'swagger-ui-dist': 'dashboard/page',
  undici: 'outbound deliveries/send.ts',
  ws: 'sockets',
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

/** The folders of src that a row belongs to, or that its arrows lead to. @param {readonly string[]} names */
const foldersOf = (names) =>
  new Set(names.filter((name) => name !== '.' && !/^[^/]+\.ts$/.test(name)).map((name) => name.split('/')[0]));

// no two folders import each other, single files and types included
for (const [row, targets] of Object.entries(arrows)) {
  const [folder] = foldersOf([row]);
  for (const target of foldersOf(listOf(targets))) {
    const back = Object.entries(arrows).find(
      ([other, to]) => foldersOf([other]).has(target) && foldersOf(listOf(to)).has(folder),
    );
    if (folder && folder !== target && back)
      throw new Error(`${row} may import ${target}, and ${back[0]} may import ${folder}`);
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

/** The doors of src for tests. */
const doors = ['^src/(index|errors|public-types)\\.ts$', '^src/[^/]+/service\\.ts$', '^src/receiver/'];
const openToTests = [...doors, ...Object.keys(pure).map((name) => `^src/${literally(name)}`)];
const knownTests = Object.values(known).flatMap((names) => names.map((name) => `test/${name}.test.ts`));

for (const file of knownTests) {
  const text = readFileSync(new URL(file, import.meta.url), 'utf8');
  const imported = [...text.matchAll(/from '[./]+\/(src\/[^']+)'/g)].map(([, name]) => String(name));
  if (imported.every((name) => openToTests.some((door) => new RegExp(door).test(name))))
    throw new Error(`${file} imports no inner module any more: take it off the list in test/imports.mjs`);
}

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
        pathNot: ['/model\\.ts$', '^src/mongo/(writes|connection/connection|list-page|agenda)\\.ts$'],
      },
      { path: packageFiles('mongoose'), dependencyTypesNot: ['type-only'] },
    ),
    forbid(
      'inside of src',
      'a test imports services, what the package exports, and the modules of test/imports.mjs',
      { path: '^test/.*\\.test\\.ts$', pathNot: knownTests.map((file) => `^${literally(file)}$`) },
      { path: '^src/', pathNot: openToTests },
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
    // what harnesses of tests import is theirs
    doNotFollow: { path: 'node_modules|^test/.*(?<!\\.test)\\.(ts|mjs|js)$' },
  },
};
