import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { java, python } from '../../documentation/runtimes.ts';
import type { ClientGenerator } from '../generated-client.ts';
import { generateWithOpenapiGenerator } from '../openapi-generator.ts';
import { pythonPackages } from '../python/generator.ts';

const here = fileURLToPath(new URL('.', import.meta.url));

async function env(): Promise<NodeJS.ProcessEnv> {
  const packages = await pythonPackages();
  return { ...packages, PYTHONPATH: `${packages.PYTHONPATH}:client` };
}

export const urllib3Options = ['-g', 'python', '--package-name', 'gateway'];

/** A client for Python, by openapi-generator. */
export const urllib3Client: ClientGenerator = {
  name: 'openapi-generator for Python',
  runtimes: [java, python],
  async generate(folder) {
    const printed = await generateWithOpenapiGenerator(folder, urllib3Options);
    await cp(join(here, 'drive.py'), join(folder, 'drive.py'));
    return printed;
  },
  program: () => ['python3', 'drive.py'],
  async example(folder) {
    await writeFile(join(folder, 'example.py'), blockWith('docs/clients.md', 'python', 'DeliveriesApi').code);
    return ['python3', 'example.py'];
  },
  env,
};
