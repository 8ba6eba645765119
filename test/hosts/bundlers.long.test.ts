import { bundledHost } from './bundled-host.ts';
import { testHosts } from './host.ts';

const packages = {
  express: '^5',
  mongoose: '^9',
  rollup: '^4',
  '@rollup/plugin-commonjs': '^29',
  '@rollup/plugin-json': '^6',
  '@rollup/plugin-node-resolve': '^16',
  tsup: '^8',
  typescript: '5.9',
  webpack: '^5',
  'webpack-cli': '^7',
  '@vercel/ncc': '^0.45',
};

const rollup = 'rollup --config rollup.config.mjs --silent --dir out';
const webpack = 'webpack --config webpack.config.mjs --output-path out --stats errors-only';

const bundlers: [name: string, build: string, run: string][] = [
  [
    'Rollup, as ES modules',
    `${rollup} --format es --entryFileNames [name].mjs --chunkFileNames [name]-[hash].mjs`,
    'main.mjs',
  ],
  [
    'Rollup, as CommonJS',
    `${rollup} --format cjs --entryFileNames [name].cjs --chunkFileNames [name]-[hash].cjs`,
    'main.cjs',
  ],
  ['tsup, as ES modules', 'tsup --format esm', 'main.mjs'],
  ['tsup, as CommonJS', 'tsup --format cjs', 'main.js'],
  ['webpack, as ES modules', `${webpack} --env esm`, 'main.mjs'],
  ['webpack, as CommonJS', webpack, 'main.cjs'],
  ['ncc, as ES modules', 'ncc build main.mjs --out out --quiet', 'index.mjs'],
  ['ncc, as CommonJS', 'ncc build main.cjs --out out --quiet', 'index.cjs'],
];

testHosts(
  'the packed tarball works, bundled with its host and alone in a folder, by',
  bundlers.map(([name, build, run]) => bundledHost(name, packages, build, run)),
);
