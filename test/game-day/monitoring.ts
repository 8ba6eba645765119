import { readFileSync } from 'node:fs';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { root } from '../package/tarball.ts';
import { parseExpression, parseScrape, type Scrape } from './prometheus.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

/** As far apart as Prometheus scrapes, whatever time has passed here. Seconds. */
const scrapeInterval = 30;

function readRules() {
  const text = readFileSync(path.join(root, 'deploy/prometheus-rules.yaml'), 'utf8');
  const [{ groups }] = loadAll(text) as [{ groups: { rules: Rule[] }[] }];
  return groups.flatMap((group) => group.rules.map(({ alert, expr }) => ({ alert, fires: parseExpression(expr) })));
}

/** Stands for a Prometheus that scrapes the processes of a scene, with the rules of deploy/. */
export function createMonitoring() {
  const rules = readRules();
  let scrapes: Scrape[] = [];
  return {
    /** Takes what each process shows, by its name. */
    add(texts: Readonly<Record<string, string>>) {
      const samples = Object.entries(texts).flatMap(([instance, text]) => parseScrape(text, instance));
      scrapes.push({ at: (scrapes.at(-1)?.at ?? 0) + scrapeInterval, samples });
    },
    forget() {
      scrapes = [];
    },
    /** What the last scrape has of a metric, given as it is written: `gateway_health{check="disk"}`. */
    metric(instance: string, written: string): number | undefined {
      const [wanted] = parseScrape(`${written} 0`, instance);
      const found = scrapes
        .at(-1)
        ?.samples.find(({ labels }) =>
          Object.entries(wanted?.labels ?? {}).every(([label, value]) => labels[label] === value),
        );
      return found?.value;
    },
    /** The alerts whose condition holds at the last scrape. How long it must hold (`for`) is left out. */
    alerts: () => rules.filter(({ fires }) => fires(scrapes).length > 0).map(({ alert }) => alert),
  };
}
