export default ({ esm = false }) => ({
  mode: 'production',
  target: 'node20',
  entry: './main.mjs',
  optimization: { minimize: false },
  ...(esm
    ? { experiments: { outputModule: true }, output: { filename: 'main.mjs', module: true } }
    : { output: { filename: 'main.cjs' } }),
});
