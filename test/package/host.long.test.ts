import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { freshUri } from '../support/mongo.ts';
import { packTarball, root } from './tarball.ts';

const run = promisify(execFile);

describe('a host that installs the tarball with npm', function () {
  this.timeout(300_000);
  const folders: string[] = [];
  after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

  /** Installs the tarball and other packages, in one command or one after the other. */
  async function install(overrides: object, ...commands: ((tarball: string) => string[])[]): Promise<string> {
    const { folder, tarball } = await packTarball();
    folders.push(folder);
    await writeFile(path.join(folder, 'package.json'), JSON.stringify({ private: true, overrides }));
    for (const packages of commands) {
      const flags = ['--no-audit', '--no-fund', '--prefer-offline'];
      await run('npm', ['install', ...flags, ...packages(tarball)], { cwd: folder });
    }
    return folder;
  }

  /** The version of a package of this checkout. */
  async function versionOf(name: string): Promise<string> {
    return JSON.parse(await readFile(path.join(root, 'node_modules', name, 'package.json'), 'utf8')).version;
  }

  /** The versions of a package that `npm ls` shows, by who asks for it. Rejects if npm finds something missing or wrong. */
  async function seen(folder: string, name: string): Promise<string[]> {
    interface Listed {
      readonly version: string;
      readonly dependencies?: Readonly<Record<string, Listed>>;
    }
    const { stdout } = await run('npm', ['ls', name, '--all', '--json'], { cwd: folder });
    const found = (parent: string, { dependencies = {} }: Listed): string[] =>
      Object.entries(dependencies).flatMap(([key, child]) => [
        ...(key === name ? [`${parent} ${child.version}`] : []),
        ...found(key, child),
      ]);
    return [...new Set(found('', JSON.parse(stdout)))].sort();
  }

  /** Runs a host that delivers, retries by Agenda, and says how many drivers it has loaded. */
  async function runHost(folder: string): Promise<object> {
    await run('node', [path.join(root, 'node_modules/typescript/bin/tsc'), '-p', 'mongoose'], { cwd: folder });
    const env = { ...process.env, MONGODB_URI: freshUri() };
    const { stdout } = await run('node', ['mongoose/out/main.mjs'], { cwd: folder, env });
    return JSON.parse(stdout);
  }

  const delivered = {
    delivered: { invoice: [500, 200], gateway: [200] },
    jobsLeft: 0,
    invoices: 1,
    balance: 5,
    session: 'invalid_value',
  };

  it('sees all packages, overrides those that they depend on, and loads one driver with mongoose 9', async () => {
    const [express, mongoose] = [await versionOf('express'), await versionOf('mongoose')];
    const folder = await install({ luxon: '3.7.1' }, (tarball) => [
      tarball,
      `express@${express}`,
      `mongoose@${mongoose}`,
    ]);
    expect(await seen(folder, 'agenda')).to.deep.equal([
      `@agendajs/mongo-backend ${await versionOf('agenda')}`,
      `express-model-gateway ${await versionOf('agenda')}`,
    ]);
    expect(await seen(folder, 'luxon')).to.deep.equal(['agenda 3.7.1', 'cron-parser 3.7.1']);
    const driver = await versionOf('mongodb');
    expect(await seen(folder, 'mongodb')).to.deep.equal([
      `@agendajs/mongo-backend ${driver}`,
      `express-model-gateway ${driver}`,
      `mongoose ${driver}`,
    ]);
    expect(await runHost(folder)).to.deep.equal({ drivers: 1, mongoose: '9', ...delivered });
  });

  it('loads one driver with mongoose 8, if mongoose is installed first', async () => {
    const [express, mongoose] = [await versionOf('express'), await versionOf('mongoose8')];
    const folder = await install(
      {},
      () => [`express@${express}`, `mongoose@${mongoose}`],
      (tarball) => [tarball],
    );
    expect(await runHost(folder)).to.deep.equal({ drivers: 1, mongoose: '8', ...delivered });
  });
});
