import { spawnSync } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../..', import.meta.url));
const biome = path.join(root, 'node_modules/@biomejs/biome/bin/biome');
const depcruise = path.join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');

const wrong: [file: string, line: string, rule: string][] = [
  ['src/proxy/x.ts', "export type { KeyService } from '../keys/service.ts';", 'proxy'],
  ['src/stored/x.ts', "export type { KeyService } from '../keys/service.ts';", 'stored'],
  ['src/stored/x.ts', "export { createProxy } from '../proxy/proxy.ts';", 'stored'],
  ['src/proxy/x.ts', "export type { StoredKind } from '../stored/kinds.ts';", 'proxy'],
  ['src/proxy/proxy.ts', "export type { StoredObjects } from '../stored/service.ts';", 'proxy/proxy.ts'],
  ['src/http/x.ts', "export type { AdminService } from '../operator/service.ts';", 'http'],
  ['src/options/x.ts', "export type { ApiRequest } from '../http/operation.ts';", 'options'],
  ['src/proxy/x.ts', "export { modelFactory } from '../mongo/collection.ts';", 'proxy'],
  ['src/http/x.ts', "export type { KeyService } from '../keys/service.ts';", 'http'],
  ['src/http/json/x.ts', "export type { KeyService } from '../../keys/service.ts';", 'http/json'],
  ['src/outbound/x.ts', "export type { KeyService } from '../keys/service.ts';", 'outbound'],
  ['src/mongo/x.ts', "export type { KeyService } from '../keys/service.ts';", 'mongo'],
  ['src/webhooks/x.ts', "export { createJobs } from '../deliveries/jobs.ts';", 'webhooks'],
  ['src/webhooks/service.ts', "export { createHealthService } from './health.ts';", 'webhooks/service.ts'],
  ['src/webhooks/recorder.ts', "export { Claims } from '../deliveries/claims.ts';", 'webhooks/recorder.ts'],
  ['src/webhooks/recorder.ts', "export { checkEvents } from './webhook.ts';", 'webhooks/recorder.ts'],
  ['src/accounting/ledger.ts', "export { createReport } from './report.ts';", 'accounting/ledger.ts'],
  ['src/accounting/x.ts', "export { createRelay } from '../proxy/relay.ts';", 'accounting'],
  ['src/events/x.ts', "export { createMetrics } from '../operator/metrics.ts';", 'events'],
  ['src/deliveries/x.ts', "export { createHealthService } from '../webhooks/health.ts';", 'deliveries'],
  ['src/deliveries/x.ts', "export { createRelay } from '../proxy/relay.ts';", 'deliveries'],
  ['src/events/x.ts', "export { createJobs } from '../deliveries/jobs.ts';", 'events'],
  ['src/events/x.ts', "export { createWebhookService } from '../webhooks/service.ts';", 'events'],
  ['src/receiver/x.ts', "export { createSend } from '../deliveries/send.ts';", 'receiver'],
  ['src/dashboard/x.ts', "export { createKeyService } from '../keys/service.ts';", 'dashboard'],
  ['src/dashboard/page/x/y.ts', "export { GatewayError } from '../../../errors.ts';", 'dashboard/page'],
  ['src/dashboard/page/x/y.ts', "export { loadFiles } from '../../files.ts';", 'dashboard/page'],
  ['src/dashboard/page/x.tsx', "export { loadFiles } from '../files.ts';", 'dashboard/page'],
  ['src/cli/x.ts', "export { join } from '../gateway.ts';", 'cli'],
  ['src/cli/server/x.ts', "export { join } from '../../gateway.ts';", 'cli/server'],
  ['src/cli/commands/x.ts', "export { join } from '../../index.ts';", 'cli/commands'],
  ['src/cli/commands/x.ts', "export { join } from '../database/database.ts';", 'cli/commands'],
  ['src/cli/commands/deep/x.ts', "export { join } from '../../database/database.ts';", 'cli/commands'],
  ['src/cli/client/x.ts', "export { join } from '../../index.ts';", 'cli/client'],
  ['src/cli/terminal/x.ts', "export { join } from '../program.ts';", 'cli/terminal'],
  ['src/operation-table.ts', "export { paint } from './cli/terminal/terminal.ts';", '.'],
  ['src/errors.ts', "export type { components } from './api.d.ts';", 'errors.ts'],
  ['src/newcomer/x.ts', "export { GatewayError } from '../errors.ts';", 'folder without a row'],
  ['src/keys/x.ts', "export { upstream } from '../../test/support/upstream.ts';", 'keys'],
  ['test/keys/x.test.ts', "export { createKeyModel } from '../../src/keys/model.ts';", 'inside of src'],
  ['test/keys/x.test.ts', "export type { KeyDocument } from '../../src/keys/model.ts';", 'inside of src'],
  ['src/deliveries/x.ts', "export { Agenda } from 'agenda';", 'package agenda'],
  ['src/deliveries/y.ts', "export type { Job } from 'agenda';", 'package agenda'],
  ['src/deliveries/x.ts', "export { Agent } from 'undici';", 'package undici'],
  ['src/keys/x.ts', "export { model } from 'mongoose';", 'mongoose beyond its types'],
  ['src/proxy/x.ts', "export type { Connection } from 'mongoose';", 'package mongoose'],
  ['src/http/x.ts', "export { middleware } from 'express-openapi-validator';", 'package express-openapi-validator'],
  ['src/http/x.ts', "export { expect } from 'chai';", 'package without a row'],
  ['src/keys/hen.ts', "export { egg } from './egg.ts';", 'cycle'],
  ['src/keys/egg.ts', "export { hen } from './hen.ts';", 'cycle'],
  ['src/keys/tail.ts', "export { head } from './head.ts';", 'cycle'],
  ['src/keys/head.ts', "export type { Tail } from './tail.ts';", 'cycle'],
];

const right: [file: string, line: string][] = [
  ['src/deliveries/x.ts', "export type { HttpResponse } from '../outbound/client.ts';"],
  ['src/http/api.ts', "export { MinuteWindows } from '../fairness/minute-windows.ts';"],
  ['src/mongo/agenda.ts', "export { Agenda } from 'agenda';"],
  ['test/keys/y.test.ts', "export { createKeyService } from '../../src/keys/service.ts';"],
  ['test/keys/y.test.ts', "export { GatewayError } from '../../src/index.ts';"],
  ['test/keys/y.test.ts', "export { parseJson } from '../../src/http/json/scan.ts';"],
  ['src/keys/y.ts', "export type { Connection } from 'mongoose';"],
  ['src/keys/model.ts', "export { model } from 'mongoose';"],
  ['src/webhooks/model.ts', "export { model } from 'mongoose';"],
  ['src/dashboard/x.ts', "export { sendReply } from '../http/reply.ts';"],
  ['src/dashboard/page/x/y.ts', "export type { components } from '../../../api.d.ts';"],
  ['src/dashboard/page/x/y.ts', "export { href } from '../data/route.ts';"],
  ['src/keys/model.ts', "export { modelFactory } from '../mongo/collection.ts';"],
  ['src/cli/commands/deep/x.ts', "export type { Terminal } from '../../terminal/terminal.ts';"],
  ['src/cli/commands/start.ts', "export { startStandalone } from '../server/start.ts';"],
];

interface Found {
  module: string;
  rules?: { name: string }[];
}

/**
 * What dependency-cruiser prints about the sources with these lines in them, under the project's rules.
 * @param changed the rules, as they are for once
 */
async function cruised(lines: readonly (readonly [file: string, line: string])[], changed = (rules: string) => rules) {
  const folder = await mkdtemp(path.join(tmpdir(), 'emg-arrows-'));
  try {
    await symlink(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
    for (const name of ['.dependency-cruiser.mjs', 'package.json', 'tsconfig.json', 'src', 'test']) {
      await cp(path.join(root, name), path.join(folder, name), { recursive: true });
    }
    for (const [file, line] of lines) {
      await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
      await appendFile(path.join(folder, file), `${line}\n`);
    }
    const config = path.join(folder, '.dependency-cruiser.mjs');
    await writeFile(config, changed(await readFile(config, 'utf8')));
    return spawnSync('node', [depcruise, 'src', 'test', '--output-type', 'json'], {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 100_000_000,
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Every import of the sources with these lines in them. */
async function judged(lines: [file: string, line: string][]): Promise<Map<string, Found[]>> {
  const { modules } = JSON.parse((await cruised(lines)).stdout) as {
    modules: { source: string; dependencies: Found[] }[];
  };
  return new Map(modules.map(({ source, dependencies }) => [source, dependencies]));
}

describe('the import rules between folders', function () {
  this.timeout(120_000);
  let imports: Map<string, Found[]>;

  before(async () => {
    imports = await judged([...wrong.map(([file, line]): [string, string] => [file, line]), ...right]);
  });

  /** The names of the rules that this line of this file breaks. */
  function broken(file: string, line: string): string[] {
    const from = /'(.+)'/.exec(line)?.[1];
    const found = imports.get(file)?.filter(({ module }) => module === from) ?? [];
    expect(found).to.not.be.empty;
    return found.flatMap(({ rules = [] }) => rules.map(({ name }) => name));
  }

  for (const [file, line, rule] of wrong) {
    it(`forbid ${file} the line ${line}`, () => {
      expect(broken(file, line)).to.include(rule);
    });
  }

  for (const [file, line] of right) {
    it(`allow ${file} the line ${line}`, () => {
      expect(broken(file, line)).to.deep.equal([]);
    });
  }
});

describe('rules by which two folders might import each other', function () {
  this.timeout(120_000);

  it('are refused, single files included', async () => {
    const row = /^ {2}proxy: `/m;
    const { status, stderr } = await cruised([], (rules) => rules.replace(row, '$&stored/kinds.ts '));
    expect(status).to.not.equal(0);
    expect(stderr).to.include('proxy may import stored, and stored may import proxy');
  });
});

describe('the lint rules of the sources', function () {
  this.timeout(60_000);

  /** The linter's verdict on one file that holds this one line, under the project's own rules. */
  async function lint(file: string, line: string): Promise<string> {
    const folder = await mkdtemp(path.join(tmpdir(), 'emg-arrows-'));
    try {
      for (const name of ['biome.json', '.gitignore']) await cp(path.join(root, name), path.join(folder, name));
      await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
      await writeFile(path.join(folder, file), `${line}\n`);
      const { stdout, stderr } = spawnSync('node', [biome, 'lint', '--colors=off'], { cwd: folder, encoding: 'utf8' });
      return stdout + stderr;
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  const home = 'export const home = process.env.HOME;';

  it('allow process.env in src/cli alone', async () => {
    expect(await lint('src/keys/x.ts', home)).to.include('process.env');
    expect(await lint('src/cli/x.ts', home)).to.match(/Checked 2 files .*No fixes applied/);
  });

  it('allow only the connection and session types of mongoose outside of models', async () => {
    const model = "export type { Model } from 'mongoose';";
    expect(await lint('src/keys/x.ts', model)).to.include('mongoose belongs to');
    expect(await lint('src/keys/model.ts', model)).to.match(/Checked 2 files .*No fixes applied/);
    const session = "export type { ClientSession } from 'mongoose';";
    expect(await lint('src/keys/x.ts', session)).to.match(/Checked 2 files .*No fixes applied/);
  });
});
