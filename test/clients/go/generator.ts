import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { go } from '../../documentation/runtimes.ts';
import { root } from '../../package/tarball.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
/** The generator with its version, as Go names it. */
export const generator = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2';
const env = { GOTOOLCHAIN: 'local' };

/** The generator, built once. */
function tools(): Promise<string> {
  return keptFolder('go', generator, (folder) =>
    run(['go', 'install', generator], { cwd: here, env: { ...env, GOBIN: folder } }),
  );
}

/** A client for Go, by oapi-codegen. */
export const goClient: ClientGenerator = {
  name: 'oapi-codegen',
  runtimes: [go],
  async generate(folder) {
    await mkdir(join(folder, 'gateway'));
    for (const file of ['main.go', 'config.yaml', 'go.mod', 'go.sum']) await cp(join(here, file), join(folder, file));
    const command = join(await tools(), 'oapi-codegen');
    const generated = await run([command, '-config', 'config.yaml', join(root, 'openapi.yaml')], { cwd: folder, env });
    await run(['go', 'vet', './gateway'], { cwd: folder, env });
    await run(['go', 'build', '-o', 'drive', '.'], { cwd: folder, env });
    return generated.stdout + generated.stderr;
  },
  program: (folder) => [join(folder, 'drive')],
  async example(folder) {
    await mkdir(join(folder, 'example'));
    await writeFile(
      join(folder, 'example/main.go'),
      blockWith('docs/clients-go-java-rust.md', 'go', 'NewClientWithResponses').code,
    );
    return ['go', 'run', './example'];
  },
};
