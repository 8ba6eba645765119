import { readFileSync } from 'node:fs';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { root } from '../package/tarball.ts';

/** The text of a file in deploy/. */
export const read = (file: string) => readFileSync(path.join(root, 'deploy', file), 'utf8');

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface Container {
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly command?: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly unhealthyPodEvictionPolicy?: string;
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly containers: readonly [Container];
        readonly terminationGracePeriodSeconds?: number;
        readonly topologySpreadConstraints?: readonly {
          readonly labelSelector: { readonly matchLabels: Readonly<Record<string, string>> };
        }[];
      };
    };
  };
}

/** What Kubernetes is given, of one kind. */
export function manifestsOf(kind: string): readonly Manifest[] {
  const files = ['kubernetes/gateway.yaml', 'kubernetes/migrate.yaml'];
  const all = files.flatMap((file) => loadAll(read(file)) as Manifest[]);
  return all.filter((manifest) => manifest.kind === kind);
}

interface Service {
  readonly command?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly depends_on: Readonly<Record<string, { readonly condition: string }>>;
  readonly stop_grace_period: string;
}

/** The services of the compose file. */
export function composeServices(): Readonly<Record<'gateway' | 'migrate' | 'initiate', Service>> {
  const [{ services }] = loadAll(read('compose.yaml')) as [{ services: ReturnType<typeof composeServices> }];
  return services;
}
