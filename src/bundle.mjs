// Completes what tsc has compiled into dist, file by file. It adds what is published:
//
// - The library, in a few files. They are CommonJS, which every host can load, Jest too; an ES module beside each entry hands its exports on, so
//   that a process that loads both has one copy of every class. Its packages are imported as they are published.
// - The two applications, the command and the dashboard's page, with the packages that only they need: hosts need not install these.

import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, transform } from 'esbuild';
import { CORE_SCHEMA, load } from 'js-yaml';

const root = fileURLToPath(new URL('../', import.meta.url));
const { version, dependencies, peerDependencies } = JSON.parse(await readFile(`${root}package.json`, 'utf8'));
const target = 'node20.19';

/** @satisfies {import('esbuild').BuildOptions} */
const common = /** @type {const} */ ({
  absWorkingDir: root,
  bundle: true,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  write: false,
});
/** @satisfies {import('esbuild').BuildOptions} */
const onNode = /** @type {const} */ ({
  ...common,
  format: 'esm',
  platform: 'node',
  target,
  splitting: true,
  // the command and the library must share their classes, and a host one copy of a package
  external: Object.keys({ ...dependencies, ...peerDependencies }),
});

/** Writes a file into dist. */
async function write(file, contents) {
  await mkdir(dirname(`${root}dist/${file}`), { recursive: true });
  await writeFile(`${root}dist/${file}`, contents);
}

/** Removes what earlier builds have left: it would be published. */
async function removeStale() {
  const files = (await readdir(`${root}dist`, { recursive: true })).filter((file) =>
    /\.[cm]?js$|\.d\.c?ts$/.test(file),
  );
  const stale = files.filter((file) => {
    if (/\.[cm]js$|\.d\.cts$|^cli\b/.test(file)) return true;
    const source = `${root}src/${file.replace(/\.js$|\.d\.ts$/, '')}`;
    return !existsSync(`${source}.ts`) && !existsSync(`${source}.d.ts`);
  });
  await Promise.all(stale.map((file) => rm(`${root}dist/${file}`)));
}

const pack = (text) => gzipSync(text, { level: 9 }).toString('base64');

/**
 * The modules that read files beside the sources, as they are published: with these files inside. A bundler takes modules along, and no files.
 * @param pages the files of the pages, by name, as browsers get them
 */
async function carryingModules(pages) {
  const yaml = await readFile(`${root}openapi.yaml`, 'utf8');
  const json = JSON.stringify(load(yaml, { schema: CORE_SCHEMA }));
  const packedPages = Object.fromEntries(
    Object.entries(pages).map(([name, bytes]) => [name, bytes.toString('base64')]),
  );
  return {
    'version.ts': `export const readVersion = () => ${JSON.stringify(version)};`,
    'openapi/read-document.ts': `
      import { gunzipSync } from 'node:zlib';
      const unpack = (packed) => gunzipSync(Buffer.from(packed, 'base64')).toString();
      export const readDocument = () => JSON.parse(unpack(${JSON.stringify(pack(json))}));
      export const readText = () => unpack(${JSON.stringify(pack(yaml))});`,
    'dashboard/read-page.ts': `
      const files = ${JSON.stringify(packedPages)};
      export const readPageFile = (name) => Buffer.from(files[name], 'base64');`,
  };
}

/** Gives files of `src` other contents. */
const replacing = (modules) => ({
  name: 'replacing',
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
      const contents = modules[path.slice(`${root}src/`.length)];
      return contents === undefined ? undefined : { contents, resolveDir: dirname(path) };
    });
  },
});

const isOfCommand = (file) => file.startsWith('src/cli/');

/**
 * Files of `src` that are loaded, with the packages that they need, when something of theirs is first used: a host that imports the package for
 * a type, or in one of its tests, does not wait for them.
 */
const lazy = ['gateway/open', 'dashboard/dashboard'];

/**
 * What the command imports of the library: `library` can be had without any package, `internals` loads some.
 * @param modules files of src, as they are published
 * @returns the files of each
 */
async function importsOfCommand(modules) {
  const { metafile } = await build({
    ...onNode,
    entryPoints: ['src/cli/main.ts'],
    outdir: 'dist',
    packages: 'external',
    plugins: [replacing(modules)],
  });
  const { inputs } = metafile;
  const imported = Object.keys(inputs).filter(isOfCommand);
  const files = new Set(imported.flatMap((file) => inputs[file].imports.map(({ path }) => path)));
  const ofLibrary = [...files].filter((file) => file.startsWith('src/') && !isOfCommand(file));

  const known = new Map();
  function loadsPackages(file) {
    if (!known.has(file)) {
      // until it is found out, for files that import each other
      known.set(file, false);
      const isLater = ({ path, kind }) => kind === 'dynamic-import' || lazy.some((name) => path === `src/${name}.ts`);
      const loaded = inputs[file].imports.filter((imported) => !isLater(imported));
      const isPackage = ({ path, external }) => (external ? !path.startsWith('node:') : loadsPackages(path));
      known.set(file, loaded.some(isPackage));
    }
    return known.get(file);
  }
  return { library: ofLibrary.filter((file) => !loadsPackages(file)), internals: ofLibrary.filter(loadsPackages) };
}

/** Entries that export what other files do. */
const grouping = (groups) => ({
  name: 'grouping',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^group:/ }, ({ path }) => ({ path: path.slice('group:'.length), namespace: 'group' }));
    onLoad({ filter: /./, namespace: 'group' }, ({ path }) => ({
      contents: groups[path].map((file) => `export * from './${file}';\n`).join(''),
      resolveDir: root,
    }));
  },
});

/** Imports of lazy files, which {@link toCommonJs} fits to the file that they stand in. */
const deferring = {
  name: 'deferring',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir, kind }) => {
      const file = resolve(resolveDir, path);
      const name = kind === 'import-statement' && lazy.find((name) => file === `${root}src/${name}.ts`);
      return name ? { path: `lazy:${name}`, external: true } : undefined;
    });
  },
};

/** It imports packages that are ES modules alone. */
const esModule = 'src/mongo/agenda.ts';

/**
 * A file of the library as CommonJS.
 * @param file its name in dist
 * @param exported what each file of dist exports
 */
async function toCommonJs(text, file, exported) {
  const { code } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target,
    // a file without such a module has no `import.meta`
    logOverride: { 'empty-import-meta': 'error' },
  });
  return code.replace(/\brequire\("lazy:(.+?)"\)/g, (_, name) => {
    const path = posix.relative(dirname(file), `${name}.cjs`).replace(/^(?!\.)/, './');
    const getters = exported.get(`${name}.cjs`).map((each) => `get ${each}() { return require("${path}").${each}; }`);
    return `{ ${getters.join(', ')} }`;
  });
}

/** Builds the library. @returns what each file of dist exports */
async function buildLibrary(groups, modules) {
  const { outputFiles, metafile } = await build({
    ...onNode,
    entryPoints: {
      index: 'src/index.ts',
      'receiver/index': 'src/receiver/index.ts',
      'openapi/read-document': 'src/openapi/read-document.ts',
      ...Object.fromEntries(lazy.map((name) => [name, `src/${name}.ts`])),
      'cli/library': 'group:library',
      'cli/internals': 'group:internals',
    },
    outdir: 'dist',
    chunkNames: 'chunks/[name]-[hash]',
    outExtension: { '.js': '.cjs' },
    plugins: [replacing(modules), grouping(groups), deferring],
  });
  const outputs = Object.entries(metafile.outputs).map(([path, output]) => ({
    ...output,
    file: path.slice('dist/'.length),
  }));
  const exported = new Map(outputs.map(({ file, exports }) => [file, exports]));
  const { file: esFile } = outputs.find(({ entryPoint }) => entryPoint === esModule);
  const esName = basename(esFile);
  await Promise.all(
    outputFiles.map(async ({ path, text }) => {
      const file = path.slice(`${root}dist/`.length);
      const code = text.replaceAll(esName, esName.replace('.cjs', '.mjs'));
      if (file === esFile) await write(file.replace('.cjs', '.mjs'), code);
      else await write(file, await toCommonJs(code, file, exported));
    }),
  );
  return exported;
}

/**
 * An ES module beside a CommonJS entry, which hands on what that exports, and the types of the CommonJS entry: they are those of the module.
 * @param names what the entry exports
 */
async function writeEntry(entry, names) {
  await write(`${entry}.mjs`, `export { ${names.join(', ')} } from './${basename(entry)}.cjs';\n`);
  const { default: exported } = await import(`../dist/${entry}.cjs`);
  const source = `'./${basename(entry)}.js' with { 'resolution-mode': 'import' }`;
  const types = [
    `import type * as esm from ${source};\nexport type * from ${source};\n`,
    ...names.map((name) => `export declare const ${name}: typeof esm.${name};\n`),
    ...names
      .filter((name) => /^class /.test(String(exported[name])))
      .map((name) => `export type ${name} = esm.${name};\n`),
  ];
  await write(`${entry}.d.cts`, types.join(''));
}

/** Builds the command. What it imports of the library it has from there. @returns the files that are bundled in it */
async function buildCommand(groups) {
  const library = {
    name: 'library',
    setup({ onResolve }) {
      onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
        const file = new URL(path, `file://${resolveDir}/`).pathname.slice(root.length);
        const group = Object.keys(groups).find((name) => groups[name].includes(file));
        return group && { path: `./${group}.cjs`, external: true };
      });
    },
  };
  const { outputFiles, metafile } = await build({
    ...onNode,
    charset: 'utf8',
    entryPoints: ['src/cli/main.ts'],
    outdir: 'dist/cli',
    // CommonJS packages in a bundle load Node's modules by `require`
    banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
    chunkNames: '[name]-[hash]',
    plugins: [library],
  });
  await Promise.all(outputFiles.map(({ path, contents }) => write(path.slice(`${root}dist/`.length), contents)));
  await chmod(`${root}dist/cli/main.js`, 0o755);
  return Object.keys(metafile.inputs);
}

/** Builds the pages. @returns their files as browsers get them, by name, and the files that are bundled in them */
async function buildPages() {
  const { outputFiles, metafile } = await build({
    ...common,
    charset: 'utf8',
    entryPoints: { main: 'src/dashboard/page/main.tsx', reference: 'src/dashboard/page/reference/main.ts' },
    outdir: 'dist/dashboard/page',
    minify: true,
    target: 'es2022',
  });
  await rm(`${root}dist/dashboard/page`, { recursive: true, force: true });
  const pages = Object.fromEntries(
    outputFiles.map(({ path, contents }) => [basename(path), gzipSync(contents, { level: 9 })]),
  );
  await Promise.all(Object.entries(pages).map(([name, bytes]) => write(`dashboard/page/${name}.gz`, bytes)));
  return { pages, inputs: Object.keys(metafile.inputs) };
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

await removeStale();
const { pages, inputs } = await buildPages();
const modules = await carryingModules(pages);
const groups = await importsOfCommand(modules);
const [exported, inputsOfCommand] = await Promise.all([buildLibrary(groups, modules), buildCommand(groups)]);
await Promise.all([
  ...['index', 'receiver/index'].map((entry) => writeEntry(entry, exported.get(`${entry}.cjs`))),
  // of a checkout's own build too, which has no openapi.yaml and no reader of it beside it
  write('openapi/read-document.js', "export { readDocument, readText } from './read-document.cjs';\n"),
  write('third-party-licenses.txt', await licences([...inputs, ...inputsOfCommand])),
  // tsc leaves out what is nothing but types
  copyFile(`${root}src/api.d.ts`, `${root}dist/api.d.ts`),
]);
