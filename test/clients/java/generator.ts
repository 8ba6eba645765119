import { readFileSync } from 'node:fs';
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { java } from '../../documentation/runtimes.ts';
import { root } from '../../package/tarball.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const generator = 'openapi-generator-cli==7.26.0';

/** Both programs are over before the slower compilers of the virtual machine would be worth their time. */
const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Dfile.encoding=UTF-8'];

/** What the generator says of itself, whatever it is given. */
const ofItself = [
  /OpenAPI 3\.1 support is still in beta/,
  // it sends the described fields of a form
  /Form parameters with additionalProperties are not supported/,
  // examples are for its documentation, which is not written; null is a schema that it has not yet read
  /Ignoring complex example on request body|Failed to get the schema name: null|Could not compute datatypeWithEnum from File/,
];

/** The generator, fetched once. */
function tools(): Promise<string> {
  const install = ['python3', '-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary', ':all:'] as const;
  return keptFolder('openapi-generator', generator, (folder) =>
    run([...install, '--target', folder, generator], { cwd: here }),
  );
}

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

/** A client for Java, by openapi-generator. */
export const javaClient: ClientGenerator = {
  name: 'openapi-generator for Java',
  runtime: java,
  async generate(folder) {
    const jar = join(await tools(), 'openapi_generator_cli/openapi-generator.jar');
    const names = ['--invoker-package', 'gateway', '--api-package', 'gateway.api', '--model-package', 'gateway.model'];
    const { stdout, stderr } = await run(
      [
        'java',
        ...shortLived,
        '-Dlog.level=warn',
        '-jar',
        jar,
        'generate',
        ...['-i', join(root, 'openapi.yaml'), '-g', 'java', '--library', 'okhttp-gson', '-o', 'client', ...names],
        '--additional-properties=containerDefaultToNull=true,disallowAdditionalPropertiesIfNotPresent=false',
        '--global-property=apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false',
      ],
      { cwd: folder },
    );
    const source = 'client/src/main/java/gateway';
    const files = await readdir(join(folder, source), { recursive: true });
    const sources = files.filter((file) => file.endsWith('.java')).map((file) => join(source, file));
    await mkdir(join(folder, 'classes'));
    await cp(join(here, 'Drive.java'), join(folder, 'Drive.java'));
    await compile(folder, ['Drive.java', ...sources]);
    const lines = `${stdout}${stderr}`.split('\n');
    return lines.filter((line) => !ofItself.some((known) => known.test(line))).join('\n');
  },
  program: (folder) => compiled(folder, 'Drive'),
  async example(folder) {
    await writeFile(join(folder, 'Example.java'), blockWith('docs/clients.md', 'java', 'DeliveriesApi').code);
    await compile(folder, ['Example.java']);
    return compiled(folder, 'Example');
  },
};
