import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../clients/generated-client.ts';
import { installedPackages } from '../../support/processes/python.ts';

const here = fileURLToPath(new URL('.', import.meta.url));

/**
 * Runs a program of this folder with its packages; resolves to the JSON that it prints.
 * @param url of the gateway, with `/v1`
 */
export async function runProgram<Printed>(name: string, url: string, key: string): Promise<Printed> {
  const env = await installedPackages(join(here, 'requirements.txt'));
  const { stdout } = await run(['python3', name, url, key], { cwd: here, env });
  return JSON.parse(stdout) as Printed;
}
