import { type Host, testHosts } from './host.ts';
import { nodeBinary } from './install.ts';

const packages = {
  express: '^5',
  mongoose: '^9',
  typescript: '5.9',
  tsx: '^4',
  'ts-node': '^10',
  '@types/express': '^5',
  '@types/node': '^20',
  ...nodeBinary(24),
};
const tsc = 'tsc --strict --target es2022 --types node --noEmitOnError';

/** As most who use ts-node have it. */
const commonJs = JSON.stringify({ module: 'commonjs', moduleResolution: 'node10', esModuleInterop: true });

/** Each with the checks of libraries on, so that the package's own types resolve, too. */
const resolutions: [name: string, build: string[], run: string][] = [
  ['module node16, as an ES module', [`${tsc} --module node16 main.mts`], 'node main.mjs'],
  ['module node16, as CommonJS', [`${tsc} --module node16 main.cts`], 'node main.cjs'],
  [
    'moduleResolution node10',
    ['cp main.mts main.ts', `${tsc} --module commonjs --moduleResolution node10 --esModuleInterop main.ts`],
    'node main.js',
  ],
  ['moduleResolution bundler', [`${tsc} --module esnext --moduleResolution bundler main.mts`], 'node main.mjs'],
];

const runners: [name: string, run: string, node?: number][] = [
  ['tsx, as an ES module', 'tsx main.mts'],
  ['tsx, as CommonJS', 'cp main.mts main.ts && tsx main.ts'],
  ['ts-node', `cp main.mts main.ts && ts-node --compiler-options '${commonJs}' main.ts`],
  ['Node 24, which strips the types', 'node main.mts', 24],
];

testHosts('the packed tarball works from TypeScript with', [
  ...resolutions.map(([name, build, run]): Host => ({ name, packages, files: ['typescript'], build, run })),
  ...runners.map(([name, run, node]): Host => ({ name, packages, files: ['typescript'], run, ...(node && { node }) })),
]);
