import { bundledHost } from './bundled-host.ts';
import { testHosts } from './host.ts';
import { checkout } from './install.ts';

/** An ES module of bundled CommonJS packages loads Node's own by `require`. */
const banner = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
const esbuild = 'esbuild main.mjs --bundle --platform=node --log-level=error';

testHosts('the packed tarball works, bundled with its host and alone in a folder, by', [
  bundledHost(
    'esbuild, as an ES module',
    checkout,
    `${esbuild} --format=esm --outfile=out/main.mjs --banner:js="${banner}"`,
    'main.mjs',
  ),
  bundledHost(
    'esbuild, as CommonJS, minified',
    checkout,
    `${esbuild} --minify --format=cjs --outfile=out/main.cjs`,
    'main.cjs',
  ),
]);
