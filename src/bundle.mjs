// Completes what tsc has compiled into dist: bundles the two applications, the command and the dashboard's page, with the packages that
// only they need, so that a host which mounts the router does not install these. The library imports its packages as they are published.

import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { CORE_SCHEMA, load } from 'js-yaml';

const root = fileURLToPath(new URL('../', import.meta.url));
const { dependencies, peerDependencies } = JSON.parse(await readFile(`${root}package.json`, 'utf8'));

/** @type {import('esbuild').BuildOptions} */
const common = { absWorkingDir: root, bundle: true, charset: 'utf8', logLevel: 'warning', metafile: true };

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

/** openapi.yaml as JSON: reading it takes a tenth of the time, and no package. */
async function writeDocument() {
  const document = load(await readFile(`${root}openapi.yaml`, 'utf8'), { schema: CORE_SCHEMA });
  await writeFile(`${root}dist/openapi/openapi.json`, JSON.stringify(document));
  await writeFile(
    `${root}dist/openapi/read-document.js`,
    "import { readFileSync } from 'node:fs';\n" +
      "const file = new URL('./openapi.json', import.meta.url);\n" +
      "export const readDocument = () => JSON.parse(readFileSync(file, 'utf8'));\n",
  );
}

/**
 * A CommonJS entry beside an ES module: Node loads the same module by `require`, and TypeScript accepts that with `module: node16`, too,
 * which otherwise knows nothing of it. Its types are those of the module.
 */
async function writeCommonJsEntry(entry) {
  const exported = Object.entries(await import(`../dist/${entry}.js`));
  const values = exported.map(([name]) => `export declare const ${name}: typeof esm.${name};\n`);
  const classes = exported.filter(([, value]) => /^class /.test(String(value)));
  const source = "'./index.js' with { 'resolution-mode': 'import' }";
  const types = [
    `import type * as esm from ${source};\nexport type * from ${source};\n`,
    ...values,
    ...classes.map(([name]) => `export type ${name} = esm.${name};\n`),
  ];
  await writeFile(`${root}dist/${entry}.d.cts`, types.join(''));
  await writeFile(`${root}dist/${entry}.cjs`, "module.exports = require('./index.js');\n");
}

/** The licences of the packages that are in the bundles, as they ask for. */
async function licences(inputs) {
  const folders = new Set(inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []));
  const texts = [...folders].map(async (folder) => {
    const { name, version, license } = JSON.parse(await readFile(`${root}${folder}/package.json`, 'utf8'));
    const all = await readdir(`${root}${folder}`);
    // a package that is a bundle itself has a list of what it carries
    const files = all.filter((entry) => /^licen[cs]e|^notice|^swagger-ui-bundle\.js\.LICENSE/i.test(entry)).sort();
    const texts = await Promise.all(
      // some have it at the end of their README
      (files.length > 0 ? files : all.filter((entry) => /^readme/i.test(entry))).map(async (file) =>
        (await readFile(`${root}${folder}/${file}`, 'utf8')).replace(/^.*^## License$/ms, ''),
      ),
    );
    return `${name} ${version} (${license})\n\n${texts.join('\n').trim()}\n`;
  });
  return [...new Set(await Promise.all(texts))].sort().join(`\n${'-'.repeat(80)}\n\n`);
}

/** Removes what earlier builds have left of sources that are gone: it would be published. */
async function removeStale() {
  const compiled = (await readdir(`${root}dist`, { recursive: true })).filter(
    (file) => /\.(js|d\.ts)$/.test(file) && !/^(cli|dashboard\/page)\b/.test(file),
  );
  const stale = compiled.filter((file) => {
    const source = `${root}src/${file.replace(/\.js$|\.d\.ts$/, '')}`;
    return !existsSync(`${source}.ts`) && !existsSync(`${source}.d.ts`);
  });
  await Promise.all(stale.map((file) => rm(`${root}dist/${file}`)));
}

await removeStale();
await rm(`${root}dist/cli`, { recursive: true, force: true });
const [command, page] = await Promise.all([
  build({
    ...common,
    entryPoints: ['src/cli/main.ts'],
    outdir: 'dist/cli',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    // the command and the library must share their classes, and a host one copy of a package
    external: Object.keys({ ...dependencies, ...peerDependencies }),
    // CommonJS packages in a bundle load Node's modules by `require`
    banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
    legalComments: 'none',
    splitting: true,
    chunkNames: '[name]-[hash]',
    plugins: [library],
  }),
  build({
    ...common,
    entryPoints: { main: 'src/dashboard/page/main.tsx', reference: 'src/dashboard/page/reference/main.ts' },
    outdir: 'dist/dashboard/page',
    minify: true,
    target: 'es2022',
    legalComments: 'none',
    write: false,
  }),
]);
await rm(`${root}dist/dashboard/page`, { recursive: true, force: true });
await mkdir(`${root}dist/dashboard/page`, { recursive: true });
await Promise.all(
  // browsers get them as they are
  page.outputFiles.map(({ path, contents }) => writeFile(`${path}.gz`, gzipSync(contents, { level: 9 }))),
);
const inputs = [command, page].flatMap(({ metafile }) => Object.keys(metafile.inputs));
await writeFile(`${root}dist/third-party-licenses.txt`, await licences(inputs));
await writeDocument();
// tsc leaves out what is nothing but types
await copyFile(`${root}src/api.d.ts`, `${root}dist/api.d.ts`);
await Promise.all(['index', 'receiver/index'].map(writeCommonJsEntry));
await chmod(`${root}dist/cli/main.js`, 0o755);
