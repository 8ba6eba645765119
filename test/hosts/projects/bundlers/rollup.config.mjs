import commonjs from '@rollup/plugin-commonjs';
import json from '@rollup/plugin-json';
import resolve from '@rollup/plugin-node-resolve';

export default {
  input: 'main.mjs',
  plugins: [
    resolve({ preferBuiltins: true, exportConditions: ['node'], mainFields: ['main'] }),
    commonjs({ ignore: ['node:sqlite'] }),
    json(),
  ],
};
