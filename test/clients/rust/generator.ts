import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { cargo, java } from '../../documentation/runtimes.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';
import { generateWithOpenapiGenerator } from '../openapi-generator.ts';
import { callsOf, functionsIn } from './calls.ts';

const here = fileURLToPath(new URL('.', import.meta.url));

/** The version of the client is not that of openapi.yaml, because it stands in Cargo.lock. */
const properties = 'packageName=gateway,packageVersion=0.0.0,supportAsync=false,useChrono=false';

/** Writes the call of each function in the modules of the crate into the program. */
async function writeCalls(folder: string): Promise<void> {
  const apis = join(folder, 'client/src/apis');
  const declared = (await readFile(join(apis, 'mod.rs'), 'utf8')).matchAll(/^pub mod (\w+_api);/gm);
  const functions = [...declared].map(async ([, name = '']) =>
    functionsIn(name, await readFile(join(apis, `${name}.rs`), 'utf8')),
  );
  await writeFile(join(folder, 'src/calls.rs'), callsOf((await Promise.all(functions)).flat()));
}

/** Builds the program; what the client depends on is compiled once, and kept. */
async function build(folder: string): Promise<void> {
  const { stdout: version } = await run(['cargo', '--version'], { cwd: here });
  const compile = (target: string) =>
    run(['cargo', 'build', '--quiet', '--locked'], { cwd: folder, env: { CARGO_TARGET_DIR: target } });
  const locked = await readFile(join(here, 'Cargo.lock'), 'utf8');
  const target = join(folder, 'target');
  await cp(await keptFolder('rust', version + locked, compile), target, { recursive: true, preserveTimestamps: true });
  await compile(target);
}

export const rustOptions = ['-g', 'rust', '--library', 'reqwest', `--additional-properties=${properties}`];

/** A client for Rust, by openapi-generator. */
export const rustClient: ClientGenerator = {
  name: 'openapi-generator for Rust',
  runtimes: [java, cargo],
  async generate(folder) {
    const printed = await generateWithOpenapiGenerator(folder, rustOptions);
    await mkdir(join(folder, 'src'));
    for (const file of ['Cargo.toml', 'Cargo.lock']) await cp(join(here, file), join(folder, file));
    await cp(join(here, 'main.rs'), join(folder, 'src/main.rs'));
    await writeCalls(folder);
    await build(folder);
    return printed;
  },
  program: (folder) => [join(folder, 'target/debug/drive')],
  async example(folder) {
    await mkdir(join(folder, 'examples'));
    await writeFile(
      join(folder, 'examples/example.rs'),
      blockWith('docs/clients-go-java-rust.md', 'rust', 'list_deliveries').code,
    );
    return ['cargo', 'run', '--quiet', '--locked', '--example', 'example'];
  },
};
