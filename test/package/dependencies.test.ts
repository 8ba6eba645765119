import { readdir, readFile } from 'node:fs/promises';
import { builtinModules, createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { CORE_SCHEMA, load } from 'js-yaml';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What a host installs with the router. The command and the page are bundled with theirs at build time. */
const runtimeDependencies = [
  '@agendajs/mongo-backend',
  '@opentelemetry/api',
  'agenda',
  'ajv',
  'ajv-formats',
  'axios',
  'express-openapi-validator',
  'helmet',
  'ipaddr.js',
  'mongodb',
  'prom-client',
  'undici',
  'ws',
];
const peerDependencies = ['express', 'mongoose'];

const built = join(root, 'dist');

/** The compiled files below a folder of dist, with their text. */
async function compiled(folder = ''): Promise<{ name: string; text: string }[]> {
  const names = (await readdir(join(built, folder), { recursive: true })).filter((name) => /\.[cm]?js$/.test(name));
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(built, folder, name), 'utf8') })));
}

const importStatement = /^(?:import|export|\}) ?(?:[\w*{},$ ]+ from )?["']([^."'][^"']*)["'];$/gm;
/** What a CommonJS file requires, and a bundled CommonJS package of those that are not in the bundle. */
const requireCall = /\b(?:__)?require\("([^."][^"]*)"\)/g;

/** The packages that the compiled files import. The page runs in a browser, and quotes imports to its readers. */
async function imports(): Promise<string[]> {
  const onNode = (await compiled()).filter(({ name }) => !name.startsWith(join('dashboard', 'page')));
  const specifiers = onNode.flatMap(({ text }) =>
    [importStatement, requireCall].flatMap((pattern) => [...text.matchAll(pattern)].map(([, name = '']) => name)),
  );
  const isBuiltIn = (name: string) => name.startsWith('node:') || builtinModules.includes(name);
  const names = specifiers
    .filter((name) => !isBuiltIn(name))
    .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
  return [...new Set(names)].sort();
}

/** The packages that are bundled in a file, which says whose text follows. The page is minified, and does not. */
function bundledIn({ text }: { readonly text: string }): string[] {
  const origins = text.matchAll(/^ *\/\/ (?:\S+\/)?node_modules\/((?:@[^/\s]+\/)?[^/\s]+)\//gm);
  return [...origins].map(([, name = '']) => name);
}

describe('the packages that a host installs', () => {
  it('are the dependencies listed here, and no others', async () => {
    const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    expect(Object.keys(manifest.dependencies)).to.deep.equal(runtimeDependencies);
    expect(Object.keys(manifest.peerDependencies)).to.deep.equal(peerDependencies);
    expect(manifest).to.not.have.any.keys('optionalDependencies', 'bundleDependencies', 'bundledDependencies');
  });

  it('include every package that the build imports', async () => {
    const imported = await imports();
    expect([...runtimeDependencies, ...peerDependencies]).to.include.members(imported);
    expect(imported).to.include.members([...runtimeDependencies, ...peerDependencies]);
  });

  it('include a driver that mongoose takes too, 8 or 9, so that hosts have one copy of it', async () => {
    const { dependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    const mongoose = JSON.parse(await readFile(join(root, 'node_modules/mongoose/package.json'), 'utf8'));
    const [, major, minor] = /^~(\d+)\.(\d+)/.exec(mongoose.dependencies.mongodb) ?? [];
    // mongoose 8.0 has driver 6.2; a range without an end would bring drivers that no mongoose takes yet
    expect(dependencies.mongodb).to.equal(`>=6.2.0 <${major}.${Number(minor) + 1}.0`);
  });
});

describe('the build', () => {
  it('bundles the command and the page alone, and nothing that a host installs', async () => {
    const files = await compiled();
    const bundles = files.filter((file) => bundledIn(file).length > 0).map(({ name }) => name);
    expect(bundles).to.not.deep.equal([]);
    expect(bundles.filter((name) => !name.startsWith(join('cli', '')))).to.deep.equal([]);
    expect(files.flatMap(bundledIn).filter((name) => runtimeDependencies.includes(name))).to.deep.equal([]);
  });

  it('contains the licence of every package that is bundled in it', async () => {
    const bundled = (await compiled()).flatMap(bundledIn);
    expect(bundled).to.include.members(['commander', 'pino', 'leven']);
    const licences = await readFile(join(built, 'third-party-licenses.txt'), 'utf8');
    const entries = licences.split(/^-{80}$/m).map((entry) => entry.trim());
    for (const name of new Set([...bundled, 'openapi-fetch', 'preact', 'swagger-ui-dist'])) {
      const entry = entries.find((text) => text.startsWith(`${name} `));
      expect(entry, name).to.match(/^\S+ \d+\.\d+\.\d+\S* \([\w.-]+\)\n\n/);
      expect(entry, name).to.match(/copyright|permission is hereby granted|all rights reserved/i);
    }
  });

  it('contains openapi.yaml, unchanged, as it is written and as JSON', async () => {
    const text = await readFile(join(root, 'openapi.yaml'), 'utf8');
    const { readDocument, readText } = createRequire(import.meta.url)(join(built, 'openapi/read-document.cjs'));
    expect(readText()).to.equal(text);
    expect(readDocument()).to.deep.equal(load(text, { schema: CORE_SCHEMA }));
  });

  it('loads no CommonJS package by a dynamic import, which would not see its named exports once it is bundled', async () => {
    const files = await compiled('cli');
    const wrong = files.filter(({ text }) => /^export default require_/m.test(text));
    expect(wrong.map(({ name }) => name)).to.deep.equal([]);
  });
});

describe('a checkout', () => {
  it('runs no install script of a package: each is denied, so that npm says nothing of it', async () => {
    const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
    const { allowScripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    const scripted = Object.keys(packages).filter((folder) => packages[folder].hasInstallScript);
    const denied = Object.fromEntries(scripted.map((folder) => [folder.replace(/^.*node_modules\//, ''), false]));
    expect(allowScripts).to.deep.equal(denied);
  });
});
