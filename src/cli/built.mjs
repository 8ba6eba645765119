// Whether dist is what a build of these sources makes, so that `npm start` need not build again.
//   node src/cli/built.mjs        ends with 0 if it is, and with 1 if not
//   node src/cli/built.mjs no     a build begins, and may fail
//   node src/cli/built.mjs yes    that build has ended well; what was changed meanwhile is not in it
// It compares contents, not times: a checkout changes times alone.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('../../', import.meta.url)));
const mark = 'dist/.built';
const begun = 'dist/.building';

/** A digest of all that a build reads. Of packages, npm writes a list with each change of node_modules. */
function digestOfSources() {
  const sources = readdirSync('src', { recursive: true }).map((name) => `src/${name}`);
  const others = ['package.json', 'tsconfig.json', 'openapi.yaml', 'node_modules/.package-lock.json'];
  const hash = createHash('sha256');
  for (const file of [...sources.sort(), ...others]) {
    const bytes = statSync(file, { throwIfNoEntry: false })?.isFile() ? readFileSync(file) : Buffer.alloc(0);
    hash.update(`${file}\n${bytes.length}\n`).update(bytes);
  }
  return hash.digest('hex');
}

const [isBuilt] = process.argv.slice(2);
if (isBuilt === 'no') {
  rmSync(mark, { force: true });
  mkdirSync('dist', { recursive: true });
  writeFileSync(begun, digestOfSources());
} else if (isBuilt === 'yes') renameSync(begun, mark);
else process.exitCode = existsSync(mark) && readFileSync(mark, 'utf8') === digestOfSources() ? 0 : 1;
