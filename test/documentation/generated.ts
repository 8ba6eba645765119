import { formerVariablesAsMarkdown, variablesAsMarkdown } from '../../src/cli/config/environment.ts';
import { programs } from '../../src/dashboard/page/deliveries/programs.ts';
import { scaleParts } from '../scale/scale-document.ts';
import { apiReport } from './api-report.ts';
import { formerOptionTable, optionTables } from './option-tables.ts';
import { commandTables, errorTable, failureTable, metricTable, receiverProgram } from './reference.ts';

/** The parts of documents that `npm run docs:generate` writes, by document and by the name in their markers. */
export const generatedParts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'docs/api.md': { package: () => apiReport('index.d.ts'), receiver: () => apiReport('receiver/index.d.ts') },
  'docs/commands.md': { commands: commandTables },
  'docs/errors.md': { errors: errorTable },
  'docs/metrics.md': { metrics: metricTable },
  'docs/options.md': { options: optionTables, 'former options': formerOptionTable },
  'docs/receiving.md': Object.fromEntries(programs.map(({ name }) => [name, () => receiverProgram(name)])),
  'docs/scale.md': scaleParts,
  'docs/variables.md': { variables: variablesAsMarkdown, 'former variables': formerVariablesAsMarkdown },
  'docs/webhooks.md': { failures: failureTable },
};

const markers = (name: string) => [`<!-- ${name}: npm run docs:generate -->`, `<!-- end of ${name} -->`] as const;

/** A document with its generated parts made anew. @throws when the markers of a part are missing */
export function withGeneratedParts(document: string, text: string): string {
  return Object.entries(generatedParts[document] ?? {}).reduce((before, [name, part]) => {
    const [opening, closing] = markers(name);
    const [start, end] = [before.indexOf(opening), before.indexOf(closing)];
    if (start < 0 || end < start) throw new Error(`${document} has no ${opening} … ${closing}`);
    return `${before.slice(0, start)}${opening}\n\n${part()}\n\n${before.slice(end)}`;
  }, text);
}

/** A document without what is generated: what somebody wrote. */
export function withoutGeneratedParts(text: string): string {
  return text.replace(/^<!-- (.+): npm run docs:generate -->$.*?^<!-- end of \1 -->$/gms, '');
}
