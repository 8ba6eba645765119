import { readdir, readFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What a host installs with the router. A package that only the command or the page needs is bundled at build time. */
const runtimeDependencies = [
  '@agendajs/mongo-backend',
  'agenda',
  'ajv',
  'ajv-formats',
  'axios',
  'cockatiel',
  'express-openapi-validator',
  'helmet',
  'ipaddr.js',
  'js-yaml',
  'mongodb',
  'rate-limiter-flexible',
  'raw-body',
  'undici',
];
const peerDependencies = ['express', 'mongoose'];

/** The packages that the compiled files below a folder import. */
async function importsOf(folder: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.js'));
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  const names = texts.flatMap((text) =>
    [...text.matchAll(/^(?:import|export|\}) ?(?:[\w*{},$ ]+ from )?["']([^."'][^"']*)["'];$/gm)].map(
      ([, specifier = '']) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/'),
    ),
  );
  const isBuiltIn = (name: string) => name.startsWith('node:') || builtinModules.includes(name);
  return [...new Set(names)].filter((name) => !isBuiltIn(name)).sort();
}

describe('what a host installs', () => {
  it('is these packages and no others', async () => {
    const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    expect(Object.keys(manifest.dependencies)).to.deep.equal(runtimeDependencies);
    expect(Object.keys(manifest.peerDependencies)).to.deep.equal(peerDependencies);
    expect(manifest).to.not.have.any.keys('optionalDependencies', 'bundleDependencies', 'bundledDependencies');
  });

  it('is all that the built package imports', async () => {
    const imported = await importsOf(join(root, 'dist'));
    expect([...runtimeDependencies, ...peerDependencies]).to.include.members(imported);
    expect(imported).to.include.members(['agenda', 'axios', 'express', 'express-openapi-validator', 'undici']);
  });
});

describe('the built command', () => {
  it('carries the licence of every package that is bundled in it', async () => {
    const licences = await readFile(join(root, 'dist/cli/LICENSES.txt'), 'utf8');
    for (const name of ['commander', 'mongodb-memory-server-core', 'openapi-fetch', 'string-width', 'zod']) {
      expect(licences).to.match(new RegExp(`^${name} \\d.*\\(MIT\\)\n\n.*copyright`, 'ims'));
    }
  });

  it('loads no CommonJS package by a dynamic import, which would not see its named exports once it is bundled', async () => {
    const folder = join(root, 'dist/cli');
    const files = (await readdir(folder)).filter((file) => file.endsWith('.js'));
    const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
    expect(files.filter((_, i) => /^export default require_/m.test(texts[i] ?? ''))).to.deep.equal([]);
  });
});
