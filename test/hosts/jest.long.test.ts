import { type Host, testHosts } from './host.ts';
import { nodeBinary } from './install.ts';

const babel = { '@babel/core': '^7', '@babel/preset-env': '^7' };
const typescript = { typescript: '5.9', '@types/express': '^5', '@types/node': '^24' };
const jest29 = {
  express: '^4',
  mongoose: '^8',
  jest: '^29',
  'jest-environment-jsdom': '^29',
  'ts-jest': '^29',
  '@jest/globals': '^29',
  ...babel,
  ...typescript,
  ...nodeBinary(20),
  ...nodeBinary(22),
};
const jest30 = {
  express: '^5',
  mongoose: '^9',
  jest: '^30',
  'jest-environment-jsdom': '^30',
  'ts-jest': '^29',
  '@jest/globals': '^30',
  vitest: '^5',
  ...babel,
  ...typescript,
  ...nodeBinary(24),
  ...nodeBinary(26),
};

/** Agenda is an ES module, which Jest imports with this flag of Node alone. */
const modules = { NODE_OPTIONS: '--experimental-vm-modules' };
const withoutJobs = { started: 'jobs_unavailable', delivered: undefined };

const setups: [name: string, packages: Host['packages'], folder: string, node: number][] = [
  ['Jest 29 with babel-jest', jest29, 'jest-babel', 20],
  ['Jest 29 with ts-jest', jest29, 'jest-typescript', 22],
  ['Jest 30 with babel-jest', jest30, 'jest-babel', 24],
  ['Jest 30 with ts-jest', jest30, 'jest-typescript', 26],
];

testHosts('the packed tarball works in tests by', [
  ...setups.flatMap(([name, packages, folder, node]): Host[] => {
    const host = { packages, files: [folder, 'mongo.cjs', 'mongo.d.cts'], node, run: 'jest', talks: true };
    return [
      { ...host, name: `${name} as it comes, on Node ${node}, but for start()`, report: withoutJobs },
      { ...host, name: `${name} and --experimental-vm-modules, on Node ${node}`, env: modules },
    ];
  }),
  { name: 'Vitest 5', packages: jest30, files: ['vitest'], node: 24, run: 'vitest run', talks: true },
]);
