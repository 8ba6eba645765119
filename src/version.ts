import { readFileSync } from 'node:fs';

let version: string | undefined;

/**
 * The package's version, from the package.json that lies beside the sources and the build alike, read once in a process. In the package that
 * is published, this module has it inside (`src/bundle.mjs`).
 */
export function readVersion(): string {
  version ??= (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string })
    .version;
  return version;
}
