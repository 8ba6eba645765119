import { expect } from 'chai';
import { loadAll } from 'js-yaml';
import { Registry } from 'prom-client';
import { addGauges } from '../../src/operator/gauges.ts';
import { createMetrics } from '../../src/operator/metrics.ts';
import { documentText } from '../documentation/documents.ts';
import { read } from './files.ts';

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

describe('The rules and the dashboard in deploy/', () => {
  const [rules] = loadAll(read('prometheus-rules.yaml')) as [{ groups: { rules: Alert[] }[] }];
  const alerts = rules.groups.flatMap((group) => group.rules);

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
});
