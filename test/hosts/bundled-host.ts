import type { Host } from './host.ts';

/** A host that is bundled into `out` with all its packages, which serves the dashboard too. */
export function bundledHost(name: string, packages: Host['packages'], build: string, program: string): Host {
  return {
    name,
    packages,
    files: ['bundlers'],
    build: [build],
    bundle: 'out',
    run: `node ${program}`,
    report: {
      '/dashboard/': '200 text/html, script 200 text/javascript',
      '/dashboard/reference/': '200 text/html, script 200 text/javascript',
      '/v1/openapi.json': '200 application/json: "openapi":"3.1.0',
      '/v1/openapi.yaml': '200 application/yaml: openapi: 3.1.0',
    },
  };
}
