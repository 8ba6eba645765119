import { readFileSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { python } from '../../documentation/runtimes.ts';
import { root } from '../../package/tarball.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const requirements = join(here, 'requirements.txt');

/** The generator, what its clients import, and openapi-spec-validator, installed once. */
export async function pythonPackages(): Promise<NodeJS.ProcessEnv> {
  const { stdout } = await run(['python3', '--version'], { cwd: here });
  const folder = await keptFolder('python', stdout + readFileSync(requirements, 'utf8'), (fresh) =>
    run(
      [
        'python3',
        '-m',
        'pip',
        'install',
        '--quiet',
        '--no-deps',
        '--only-binary',
        ':all:',
        '--target',
        fresh,
        '-r',
        requirements,
      ],
      { cwd: here },
    ),
  );
  return { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
}

export const pythonOptions = ['--meta', 'none'] as const;

/** A client for Python, by openapi-python-client. */
export const pythonClient: ClientGenerator = {
  name: 'openapi-python-client',
  runtimes: [python],
  async generate(folder) {
    await writeFile(join(folder, 'config.yaml'), 'post_hooks: []\n');
    const program = ['python3', '-m', 'openapi_python_client', 'generate', ...pythonOptions] as const;
    const options = ['--path', join(root, 'openapi.yaml'), '--config', 'config.yaml', '--fail-on-warning'];
    const { stdout, stderr } = await run([...program, ...options], { cwd: folder, env: await pythonPackages() });
    await cp(join(here, 'drive.py'), join(folder, 'drive.py'));
    return stdout + stderr;
  },
  program: () => ['python3', 'drive.py'],
  async example(folder) {
    await writeFile(join(folder, 'example.py'), blockWith('docs/clients.md', 'python', 'AuthenticatedClient').code);
    return ['python3', 'example.py'];
  },
  env: pythonPackages,
};
