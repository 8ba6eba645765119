import { readFileSync } from 'node:fs';
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { java } from '../../documentation/runtimes.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';
import { generateWithOpenapiGenerator, shortLived } from '../openapi-generator.ts';

const here = fileURLToPath(new URL('.', import.meta.url));

/** What the client in a folder imports, fetched once. */
function libraries(folder: string): Promise<string> {
  const pom = join(folder, 'client/pom.xml');
  const copy = ['mvn', '-q', '-B', '-f', pom, 'dependency:copy-dependencies', '-DincludeScope=compile'] as const;
  return keptFolder('java', readFileSync(pom, 'utf8'), (fresh) =>
    run([...copy, `-DoutputDirectory=${fresh}`], { cwd: folder }),
  );
}

async function compile(folder: string, sources: readonly string[]): Promise<void> {
  const options = [
    ...shortLived.map((option) => `-J${option}`),
    '-encoding',
    'UTF-8',
    '-parameters',
    '-proc:none',
    '-d',
    'classes',
  ];
  const classPath = `${await libraries(folder)}/*:classes`;
  await run(['javac', ...options, '-Xlint:none', '-cp', classPath, ...sources], { cwd: folder });
}

async function compiled(folder: string, name: string): Promise<readonly [string, ...string[]]> {
  return ['java', ...shortLived, '-cp', `${await libraries(folder)}/*:classes`, name];
}

const packages = ['--invoker-package', 'gateway', '--api-package', 'gateway.api', '--model-package', 'gateway.model'];
const properties = 'containerDefaultToNull=true,disallowAdditionalPropertiesIfNotPresent=false';
export const javaOptions = [
  '-g',
  'java',
  '--library',
  'okhttp-gson',
  ...packages,
  `--additional-properties=${properties}`,
];

/** A client for Java, by openapi-generator. */
export const javaClient: ClientGenerator = {
  name: 'openapi-generator for Java',
  runtimes: [java],
  async generate(folder) {
    const printed = await generateWithOpenapiGenerator(folder, javaOptions);
    const source = 'client/src/main/java/gateway';
    const files = await readdir(join(folder, source), { recursive: true });
    const sources = files.filter((file) => file.endsWith('.java')).map((file) => join(source, file));
    await mkdir(join(folder, 'classes'));
    await cp(join(here, 'Drive.java'), join(folder, 'Drive.java'));
    await compile(folder, ['Drive.java', ...sources]);
    return printed;
  },
  program: (folder) => compiled(folder, 'Drive'),
  async example(folder) {
    await writeFile(
      join(folder, 'Example.java'),
      blockWith('docs/clients-go-java-rust.md', 'java', 'DeliveriesApi').code,
    );
    await compile(folder, ['Example.java']);
    return compiled(folder, 'Example');
  },
};
