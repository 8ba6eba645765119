import { type Host, testHosts } from './host.ts';
import { nodeBinary } from './install.ts';

/** What Nest makes, and installs, for a new project; with a test of a host beside the one that it comes with. */
function nestHost(major: number, appModule: string): Host {
  const npmInstall = 'npm install --no-audit --no-fund --prefer-offline --loglevel=error';
  return {
    name: `the scaffold of Nest ${major} and its tests`,
    packages: { '@nestjs/cli': `^${major}`, ...nodeBinary(24) },
    files: ['nest'],
    installs: true,
    node: 24,
    build: [
      'nest new app --skip-git --package-manager npm',
      `cd app && ${npmInstall} "$TARBALL" mongoose@^9`,
      `cp host.* app && sed 's#./app.module#${appModule}#' gateway.spec.ts > app/src/gateway.spec.ts`,
    ],
    run: 'cd app && npm test',
    report: { '/': '200 text/html: Hello World!' },
    talks: true,
  };
}

const nest11 = nestHost(11, './app.module');

testHosts('the packed tarball works in a framework:', [
  {
    ...nest11,
    name: `${nest11.name}, which are Jest's, but for start()`,
    report: { ...nest11.report, started: 'jobs_unavailable', delivered: undefined },
  },
  nestHost(12, './app.module.js'),
  {
    name: 'a custom server of Next.js',
    packages: { next: '^16', react: '^19', 'react-dom': '^19', express: '^5', mongoose: '^9' },
    files: ['next'],
    env: { NEXT_TELEMETRY_DISABLED: '1' },
    build: ['next build'],
    run: 'node server.mjs',
    report: { '/': '200 text/html, script 200 application/javascript' },
    talks: true,
  },
  {
    name: 'one function that is the whole app, as with onRequest(app) of Firebase',
    packages: { '@google-cloud/functions-framework': '^5', express: '^5', mongoose: '^9' },
    files: ['firebase'],
    run: 'node main.mjs',
  },
  {
    name: 'a workspace of pnpm',
    packages: { pnpm: '^10' },
    files: ['pnpm'],
    installs: true,
    build: ['pnpm --filter api add "$TARBALL" express@5 mongoose@9'],
    run: 'node packages/api/main.mjs',
  },
]);
