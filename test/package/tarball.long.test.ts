import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { codeBlocks } from '../documentation/documents.ts';
import { freshUri } from '../support/mongo.ts';
import { installTarball, root } from './tarball.ts';

const run = promisify(execFile);

describe('the packed tarball', function () {
  this.timeout(300_000);
  let folder: string;
  let files: string[];

  before(async () => {
    ({ folder, files } = await installTarball());
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('contains the build, the specification, the licence, the README and docs, and neither sources nor tests', () => {
    expect(files).to.include.members([
      'dist/index.mjs',
      'dist/index.cjs',
      'dist/index.d.ts',
      'dist/index.d.cts',
      'dist/receiver/index.mjs',
      'dist/receiver/index.cjs',
      'dist/dashboard/dashboard.cjs',
      'dist/cli/main.js',
      'dist/third-party-licenses.txt',
      'openapi.yaml',
      'LICENSE',
      'README.md',
      'docs/webhooks.md',
      'docs/dashboard.png',
    ]);
    expect(files.filter((file) => /^(src|test|node_modules|\.)/.test(file))).to.deep.equal([]);
    const code = files.filter((file) => /^dist\/(?!cli\/).*\.[cm]?js$/.test(file));
    expect(code.length, 'files, of more than 300 sources').to.be.below(40);
  });

  it('contains no source map, and no reference to one', async () => {
    const texts = files.filter((file) => /\.([cm]?js|ts|cts|css)$/.test(file));
    const mapped = texts.filter((file) =>
      readFileSync(path.join(folder, 'node_modules/express-model-gateway', file), 'utf8').includes(
        '//# sourceMappingURL=',
      ),
    );
    expect([...mapped, ...files.filter((file) => file.endsWith('.map'))]).to.deep.equal([]);
  });

  it('runs with mongoose 8, whose driver is another: types, retries by Agenda, transactions of the host', async () => {
    const host = path.join(folder, 'mongoose');
    const modules = path.join(host, 'node_modules');
    await mkdir(modules);
    await cp(path.join(folder, 'node_modules/express-model-gateway'), path.join(modules, 'express-model-gateway'), {
      recursive: true,
    });
    await symlink(path.join(root, 'node_modules/mongoose8'), path.join(modules, 'mongoose'));
    await run('node', [path.join(root, 'node_modules/typescript/bin/tsc'), '-p', 'mongoose'], { cwd: folder });
    const env = { ...process.env, MONGODB_URI: freshUri() };
    const { stdout } = await run('node', ['mongoose/out/main.mjs'], { cwd: folder, env });
    expect(JSON.parse(stdout)).to.deep.equal({
      drivers: 2,
      mongoose: '8',
      delivered: { invoice: [500, 200], gateway: [200] },
      jobsLeft: 0,
      invoices: 1,
      balance: 5,
      session: 'invalid_value',
    });
  });

  it('type-checks every program and fragment in the README and docs', async () => {
    // test/clients compiles those that import a generated client, and generates one by Kubb's configuration
    const isHere = (code: string) => !/from '(?:\.\/client|@kubb)\//.test(code);
    const snippets = codeBlocks.filter(
      ({ language, code }) => (language === 'ts' || language === 'js') && isHere(code),
    );
    expect(snippets.length).to.be.at.least(12);
    const typescript = path.join(folder, 'typescript');
    await cp(path.join(root, 'src/api.d.ts'), path.join(typescript, 'api.d.ts'));
    const names = await Promise.all(
      snippets.map(async ({ document, line, language, code }) => {
        // its name tells where it stands when the compiler complains
        const name = `${path.basename(document, '.md')}-${line}.m${language}`;
        // a module, so that each has its own names
        await writeFile(path.join(typescript, name), `${code}export {};\n`);
        return name;
      }),
    );
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
    const flags =
      '--strict --skipLibCheck --noEmit --checkJs --target es2022 --lib es2022 --module nodenext --types node';
    const files = ['documentation-scene.d.mts', ...names];
    const complaints = await run('node', [tsc, ...flags.split(' '), ...files], { cwd: typescript }).then(
      ({ stdout }) => stdout,
      ({ stdout, message }) => stdout || message,
    );
    expect(complaints).to.equal('');
  });

  it('does nothing when it is imported: no output, no handle kept open, no global touched', async () => {
    const script =
      "const before = Object.getOwnPropertyNames(globalThis).length; await import('express-model-gateway');" +
      'console.log(Object.getOwnPropertyNames(globalThis).length - before, process.getActiveResourcesInfo().filter((r) => /TCP|Timeout|Server/.test(r)).length)';
    const { stdout, stderr } = await run('node', ['--input-type=module', '-e', script], { cwd: folder });
    expect(stdout).to.equal('0 0\n');
    expect(stderr).to.equal('');
  });
});
