import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { loadAll } from 'js-yaml';
import { Registry } from 'prom-client';
import { variables } from '../../src/cli/config/environment.ts';
import { addGauges } from '../../src/metrics/gauges.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';

import { documentText } from '../documentation/documents.ts';
import { root } from '../package/tarball.ts';

const read = (file: string) => readFileSync(path.join(root, 'deploy', file), 'utf8');

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook: string };
}

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

interface Container {
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly command?: readonly string[];
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly template?: { readonly spec: { readonly containers: readonly Container[] } } };
}

describe('The files in deploy/', () => {
  const [rules] = loadAll(read('prometheus-rules.yaml')) as [{ groups: { rules: Alert[] }[] }];
  const alerts = rules.groups.flatMap((group) => group.rules);
  const manifests = loadAll(read('kubernetes/gateway.yaml')) as Manifest[];

  interface Metric {
    readonly name: string;
    readonly type: string;
    readonly labelNames: readonly string[];
  }

  function metrics(): readonly Metric[] {
    const { registry } = createMetrics();
    // the gauges are read at a scrape alone
    addGauges(registry, () => expect.fail('nothing is scraped here'));
    expect(registry).to.be.instanceOf(Registry);
    return registry.getMetricsAsArray() as unknown as readonly Metric[];
  }

  const metricNames = () => metrics().map(({ name }) => name);

  /** What Prometheus stores of each metric, with the metric's name. */
  function seriesNames(): ReadonlyMap<string, string> {
    const suffixes = (type: string) => (type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']);
    return new Map(metrics().flatMap(({ name, type }) => suffixes(type).map((suffix) => [name + suffix, name])));
  }

  it('alert on metrics that the gateway has', () => {
    const names = metricNames();
    const used = alerts.flatMap(({ expr }) => expr.match(/gateway_\w+/g) ?? []);
    expect(used).to.not.have.length(0);
    for (const name of used) expect(names).to.include(name);
  });

  it('show every metric of the gateway in a dashboard, and no other', () => {
    const dashboard = JSON.parse(read('grafana-dashboard.json')) as Dashboard;
    const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    expect(expressions.length).to.be.above(20);
    const series = seriesNames();
    const used = expressions.flatMap((expr) => expr.match(/gateway_\w+/g) ?? expect.fail(`no metric in ${expr}`));
    for (const name of used) expect([...series.keys()]).to.include(name);
    expect(new Set(used.map((name) => series.get(name)))).to.have.all.keys(metricNames());
    for (const expr of expressions) expect(expr.split('(').length, expr).to.equal(expr.split(')').length);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).to.equal(dashboard.panels.length);
  });

  it('group and filter the dashboard by labels that the metrics have', () => {
    const labels = new Map(metrics().map(({ name, labelNames }) => [name, labelNames]));
    for (const { targets = [] } of (JSON.parse(read('grafana-dashboard.json')) as Dashboard).panels) {
      for (const { expr, legendFormat } of targets) {
        const [series = ''] = expr.match(/gateway_\w+/) ?? [];
        const known = [...(labels.get(seriesNames().get(series) ?? '') ?? []), 'le', 'instance'];
        const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '));
        const filtered = [...expr.matchAll(/(\w+)=~?"/g)].map(([, label]) => label);
        const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
        expect(known, expr).to.include.members([...grouped, ...filtered, ...shown]);
      }
    }
  });

  it('have a section in docs/on-call.md for each alert, and no other section', () => {
    const sections = [...documentText('docs/on-call.md').matchAll(/^## (\S+)$/gm)].map(([, name]) => name);
    expect(sections).to.have.members(alerts.map(({ alert }) => alert));
    for (const { alert, annotations } of alerts) {
      expect(annotations.runbook).to.equal(`docs/on-call.md#${alert.toLowerCase()}`);
    }
  });

  it('set variables that the gateway reads, with valid values', () => {
    const containers = manifests.flatMap(({ spec }) => spec.template?.spec.containers ?? []);
    const set = containers.flatMap(({ env }) => env);
    expect(set.map(({ value }) => value)).to.include.members(['api', 'worker']);
    for (const { name, value } of set) {
      expect(variables).to.have.property(name);
      expect(variables[name as keyof typeof variables].type.safeParse(value).success, `${name}=${value}`).to.equal(
        true,
      );
    }
    const inImage = [...read('Dockerfile').matchAll(/^ENV (.*)$/gm)].flatMap(([, line = '']) => line.split(' '));
    for (const name of inImage.map((pair) => pair.split('=')[0])) {
      if (name !== 'NODE_ENV') expect(variables).to.have.property(name as string);
    }
    const [compose] = loadAll(read('compose.yaml')) as [{ services: { gateway: { environment: object } } }];
    for (const name of Object.keys(compose.services.gateway.environment)) expect(variables).to.have.property(name);
  });

  it('run the API and workers separately, each with a disruption budget', () => {
    const named = (kind: string) =>
      manifests.filter((manifest) => manifest.kind === kind).map(({ metadata }) => metadata.name);
    expect(named('Deployment')).to.deep.equal(['gateway-api', 'gateway-worker']);
    expect(named('PodDisruptionBudget')).to.deep.equal(['gateway-api', 'gateway-worker']);
  });
});
