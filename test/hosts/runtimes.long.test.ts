import { type Host, testHosts } from './host.ts';
import { nodeBinary } from './install.ts';

const versions = [20, 22, 24, 26];
const nodes = Object.assign({}, ...versions.map(nodeBinary));
/** Beside the runtimes, the packages that package.json names, and no others. */
const express5 = { express: '^5', mongoose: '^9', deno: '^2', bun: '^1.4', ...nodes };
const express4 = { express: '^4', mongoose: '^8', ...nodes };

const byVersion = versions.flatMap((node): Host[] => [
  {
    name: `an ES module with Express 5 and mongoose 9 on Node ${node}`,
    packages: express5,
    files: ['main.mjs'],
    node,
    // the command is installed with it
    build: ['express-model-gateway --help | grep "^Usage: express-model-gateway"'],
    run: 'node main.mjs',
  },
  {
    name: `a CommonJS module with Express 4 and mongoose 8 on Node ${node}`,
    packages: express4,
    files: ['main.cjs'],
    node,
    run: 'node main.cjs',
  },
]);

testHosts('the packed tarball works in', [
  ...byVersion,
  {
    name: 'a host that sets sanitizeFilter, strictQuery, autoIndex and bufferCommands, and plugins, on all of mongoose',
    packages: express5,
    files: ['hardened.mjs'],
    run: 'node hardened.mjs',
  },
  {
    name: 'an ES module on Deno 2',
    packages: express5,
    files: ['main.mjs'],
    run: 'deno run --allow-all main.mjs',
  },
  {
    name: 'an ES module on Bun 1.4, without WebSockets',
    packages: express5,
    files: ['bun.mjs'],
    run: 'bun bun.mjs',
  },
]);
