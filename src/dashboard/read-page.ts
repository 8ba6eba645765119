import { readFileSync } from 'node:fs';

export type PageFileName = `${'main' | 'reference'}.${'js' | 'css'}`;

/**
 * Reads a file of a page that `npm run build` has put into `dist`, compressed; the path is the same from `src` and from `dist`. The package
 * that is published has a module with these files inside in its place: a bundler takes modules along, and no files (`src/bundle.mjs`).
 * @throws when it has not been built
 */
export function readPageFile(name: PageFileName): Buffer {
  return readFileSync(new URL(`../../dist/dashboard/page/${name}.gz`, import.meta.url));
}
