// Puts the command and the packages that only it needs into a few files below dist/cli, so that a host which mounts the
// router installs none of them. What the rest of the package needs too stays an import: the command and the library must
// share their classes, and the packages under `dependencies`.

import { chmod, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = new URL('../../', import.meta.url);
const outdir = fileURLToPath(new URL('dist/cli', root));
const { dependencies, peerDependencies } = JSON.parse(await readFile(new URL('package.json', root), 'utf8'));

/** The command's imports of the library, which tsc compiles: `../../errors.ts` is `../errors.js` beside the bundle. */
const library = {
  name: 'library',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
      const [, file] = /^.*\/src\/(.*)\.ts$/.exec(new URL(path, `file://${resolveDir}/`).pathname) ?? [];
      return file && !file.startsWith('cli/') ? { path: `../${file}.js`, external: true } : undefined;
    });
  },
};

/** The licences of the packages that are in the bundle, as they ask for. */
async function licences(inputs) {
  const folders = new Set(inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []));
  const texts = [...folders].sort().map(async (folder) => {
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const { version, license } = JSON.parse(await readFile(new URL(`${folder}/package.json`, root), 'utf8'));
    const file = (await readdir(new URL(folder, root))).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? await readFile(new URL(`${folder}/${file}`, root), 'utf8') : '';
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`);
}

await rm(outdir, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: fileURLToPath(root),
  entryPoints: ['src/cli/main.ts'],
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  charset: 'utf8',
  chunkNames: '[name]-[hash]',
  external: Object.keys({ ...dependencies, ...peerDependencies }),
  plugins: [library],
  // CommonJS packages in the bundle load Node's modules by `require`
  banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
});
await writeFile(`${outdir}/LICENSES.txt`, await licences(Object.keys(metafile.inputs)));
await chmod(`${outdir}/main.js`, 0o755);
