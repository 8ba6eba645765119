// Reads the openapi.yaml that lies beside `src/`. The build replaces this module with one that has it inside, as JSON and as it is written:
// a bundler takes modules along, and no files (`src/bundle.mjs`).

import { readFileSync } from 'node:fs';
import { CORE_SCHEMA, load } from 'js-yaml';

const read = () => readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');

/** The document, parsed. */
export function readDocument(): unknown {
  return load(read(), { schema: CORE_SCHEMA });
}

/** The document as it is written. */
export function readText(): string {
  return read();
}
