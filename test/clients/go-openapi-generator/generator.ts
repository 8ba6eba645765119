import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { go, java } from '../../documentation/runtimes.ts';
import { type ClientGenerator, run } from '../generated-client.ts';
import { generateWithOpenapiGenerator } from '../openapi-generator.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const env = { GOTOOLCHAIN: 'local' };

/** The package is in the folder `gateway` of the module that uses it. */
const place = ['--git-host', 'example', '--git-user-id', 'client', '--git-repo-id', 'gateway'];
const properties =
  'packageName=gateway,withGoMod=false,enumClassPrefix=true,disallowAdditionalPropertiesIfNotPresent=false';
export const goOptions = ['-g', 'go', ...place, `--additional-properties=${properties}`];

/** A client for Go, by openapi-generator. */
export const goOpenapiGeneratorClient: ClientGenerator = {
  name: 'openapi-generator for Go',
  runtimes: [java, go],
  async generate(folder) {
    const printed = await generateWithOpenapiGenerator(folder, goOptions, 'gateway');
    for (const file of ['main.go', 'go.mod', 'go.sum']) await cp(join(here, file), join(folder, file));
    await run(['go', 'vet', './gateway'], { cwd: folder, env });
    await run(['go', 'build', '-o', 'drive', '.'], { cwd: folder, env });
    return printed;
  },
  program: (folder) => [join(folder, 'drive')],
  async example(folder) {
    await mkdir(join(folder, 'example'));
    await writeFile(
      join(folder, 'example/main.go'),
      blockWith('docs/clients-go-java-rust.md', 'go', 'NewAPIClient').code,
    );
    return ['go', 'run', './example'];
  },
};
