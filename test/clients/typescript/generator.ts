import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { root } from '../../package/tarball.ts';
import { type ClientGenerator, run } from '../generated-client.ts';

const tool = (name: string) => join(root, 'node_modules/.bin', name);

const compilerOptions = {
  target: 'es2023',
  lib: ['es2023', 'dom', 'dom.iterable'],
  module: 'nodenext',
  strict: true,
  noEmit: true,
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
};

/** A client for TypeScript, by @hey-api/openapi-ts. */
export const typescriptClient: ClientGenerator = {
  name: '@hey-api/openapi-ts',
  runtimes: [],
  async generate(folder) {
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['.'] }));
    const options = ['-i', join(root, 'openapi.yaml'), '-o', 'client', '--no-log-file'];
    const { stdout, stderr } = await run([tool('openapi-ts'), ...options], { cwd: folder });
    return stdout + stderr;
  },
  program: (folder) => [tool('tsx'), fileURLToPath(new URL('drive.ts', import.meta.url)), folder],
  async example(folder) {
    await writeFile(join(folder, 'example.ts'), blockWith('docs/clients.md', 'ts', 'client.setConfig').code);
    await run([tool('tsc'), '-p', '.'], { cwd: folder });
    return [tool('tsx'), 'example.ts'];
  },
};
