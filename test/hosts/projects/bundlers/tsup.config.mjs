export default {
  entry: ['main.mjs'],
  outDir: 'out',
  noExternal: [/./],
  silent: true,
  // the CommonJS of packages that are ES modules, too: `@jsdevtools/ono` fails in a file of the other kind
  esbuildOptions(options) {
    options.mainFields = ['main', 'module'];
  },
  // ES modules of bundled CommonJS packages load Node's own by `require`
  banner: ({ format }) =>
    format === 'esm'
      ? { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" }
      : {},
};
