import { readFileSync } from 'node:fs';
import { keptFolder, run } from '../../clients/generated-client.ts';

/**
 * Installs Python packages, once for each version of Python and of the list.
 * @param requirements a file with the exact version of every package
 * @returns the environment in which Python finds them
 */
export async function installedPackages(requirements: string): Promise<NodeJS.ProcessEnv> {
  const cwd = process.cwd();
  const { stdout } = await run(['python3', '--version'], { cwd });
  const install = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary', ':all:'];
  const folder = await keptFolder('python', stdout + readFileSync(requirements, 'utf8'), (fresh) =>
    run(['python3', ...install, '--target', fresh, '-r', requirements], { cwd }),
  );
  return { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
}
