import { readFileSync } from 'node:fs';
import { CORE_SCHEMA, load } from 'js-yaml';

/** Reads the openapi.yaml that lies beside `src/`. The build replaces this module with one that reads it as JSON (`src/bundle.mjs`). */
export function readDocument(): unknown {
  return load(readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8'), { schema: CORE_SCHEMA });
}
