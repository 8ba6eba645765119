import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../package/tarball.ts';
import { keptFolder, run } from './generated-client.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
export const version = 'openapi-generator-cli==7.26.0';

/** Programs for Java that are over before the slower compilers of the virtual machine would be worth their time. */
export const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Dfile.encoding=UTF-8'];

/** What the generator says of itself, whatever it is given. */
const ofItself = [
  /OpenAPI 3\.1 support is still in beta/,
  // it sends the described fields of a form
  /Form parameters with additionalProperties are not supported/,
  // examples are for its documentation, which is not written; null is a schema that it has not yet read
  /Ignoring complex example on request body|Failed to get the schema name: null|Could not compute datatypeWithEnum from/,
  // names that a language reserves, or that the generator has made itself
  /cannot be used as (a )?[a-z/ ]+ name\. Renamed to/,
];

/** The generator, fetched once. */
function tools(): Promise<string> {
  const install = ['python3', '-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary', ':all:'] as const;
  return keptFolder('openapi-generator', version, (folder) =>
    run([...install, '--target', folder, version], { cwd: here }),
  );
}

/** Neither tests nor documentation, unless the options say what is generated. */
const parts =
  '--global-property=apis,models,webhooks,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false';

/** Generates a client into a folder of a folder; resolves to what openapi-generator has printed about the document. */
export async function generateWithOpenapiGenerator(
  folder: string,
  options: readonly string[],
  output = 'client',
): Promise<string> {
  const jar = join(await tools(), 'openapi_generator_cli/openapi-generator.jar');
  const places = ['-i', join(root, 'openapi.yaml'), '-o', output];
  const saysParts = options.some((option) => option.startsWith('--global-property='));
  const command = ['java', ...shortLived, '-Dlog.level=warn', '-jar', jar, 'generate'] as const;
  const { stdout, stderr } = await run([...command, ...places, ...options, ...(saysParts ? [] : [parts])], {
    cwd: folder,
  });
  const lines = `${stdout}${stderr}`.split('\n');
  return lines.filter((line) => !ofItself.some((known) => known.test(line))).join('\n');
}
