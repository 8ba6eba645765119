import type { Command, Option } from 'commander';
import { createProgram } from '../../src/cli/program.ts';
import { programs } from '../../src/dashboard/page/deliveries/programs.ts';
import { failures } from '../../src/deliveries/failures.ts';
import { describeCodes } from '../../src/openapi/error-codes.ts';
import { sharedSpec } from '../../src/openapi/spec.ts';
import { addGauges } from '../../src/operator/gauges.ts';
import { createMetrics } from '../../src/operator/metrics.ts';
import { RecordedTerminal } from '../cli/recorded-terminal.ts';
import { markdownTable } from '../scale/markdown-table.ts';

/** Every code of an error, as openapi.yaml describes it. */
export function errorTable(): string {
  const rows = describeCodes(sharedSpec()).flatMap(({ code, status, meaning }) =>
    status === null ? [] : [[`\`${code}\``, String(status), meaning]],
  );
  return markdownTable(['code', 'status', 'what it means'], rows);
}

/** Every code of a failed delivery attempt, with what the receiver's owner can do. */
export function failureTable(): string {
  const rows = Object.entries(failures).map(([code, { meaning, remedy }]) => [`\`${code}\``, meaning, remedy]);
  return markdownTable(['code', 'what happened', "what the receiver's owner can do"], rows);
}

/** The labels of gauges, which share one list. */
const gaugeLabels: readonly (readonly [name: RegExp, label: string])[] = [
  [/^gateway_upstream_/, 'upstream'],
  [/^gateway_health$/, 'check'],
  [/^gateway_build_info$/, 'version'],
  [/^gateway_database_connections$/, 'state'],
];

/** Every metric of a gateway. */
export function metricTable(): string {
  const { registry } = createMetrics();
  addGauges(registry, () => {
    throw new Error('nothing is scraped here');
  });
  const metrics = registry.getMetricsAsArray() as unknown as {
    readonly name: string;
    readonly type: string;
    readonly help: string;
    readonly labelNames: readonly string[];
  }[];
  const rows = metrics.map(({ name, type, help, labelNames }) => {
    const labels =
      type === 'gauge' ? gaugeLabels.filter(([pattern]) => pattern.test(name)).map(([, label]) => label) : labelNames;
    return [`\`${name}\``, type, labels.map((label) => `\`${label}\``).join(', '), help];
  });
  return markdownTable(['metric', 'type', 'labels', 'meaning'], rows);
}

/** What every command that calls the API takes; docs/commands.md says it once. */
const shared = ['--base-url', '--api-key', '--json', '--help'];

function optionRow({ flags, description, defaultValue, defaultValueDescription, argChoices }: Option): string[] {
  const choices = argChoices && `one of ${argChoices.join(', ')}`;
  const byDefault = defaultValueDescription ?? (defaultValue === undefined ? undefined : String(defaultValue));
  const meaning = [description, choices, byDefault && `default: ${byDefault}`].filter(Boolean).join('; ');
  return [`\`${flags}\``, meaning.replaceAll('|', '\\|')];
}

function describeCommand(command: Command, names: readonly string[]): string[] {
  const words = [...names, command.name()];
  if (command.commands.length > 0) return command.commands.flatMap((child) => describeCommand(child, words));
  const args = command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`));
  const options = command.options.filter(({ long, hidden }) => !hidden && !shared.includes(long ?? ''));
  const title = `### ${words.join(' ')}`;
  const usage = `\`express-model-gateway ${[...words, ...args].join(' ')}\`: ${command.summary() || command.description()}.`;
  return options.length === 0
    ? [title, usage]
    : [title, usage, markdownTable(['option', 'meaning'], options.map(optionRow))];
}

/** Every command, by the headings that `--help` has, with its options. */
export function commandTables(): string {
  const program = createProgram(new RecordedTerminal());
  const visible = program.createHelp().visibleCommands(program);
  const commands = visible.filter((command) => command.name() !== 'help');
  const headings = new Set(commands.map((command) => command.helpGroup() ?? ''));
  return [...headings]
    .flatMap((heading) => [
      `## ${heading.replace(/:$/, '').replace(/ \(.*/, '')}`,
      ...commands.filter((one) => one.helpGroup() === heading).flatMap((one) => describeCommand(one, [])),
    ])
    .join('\n\n');
}

/** How the fences of the dashboard's programs are named in Markdown. */
const fences: Readonly<Record<string, string>> = {
  'Node.js': 'ts',
  Python: 'python',
  Go: 'go',
  Java: 'java',
  PHP: 'php',
};

/** One of the receivers that the dashboard shows, as a block of code. */
export function receiverProgram(name: string): string {
  const program = programs.find((one) => one.name === name);
  if (!program) throw new Error(`the dashboard shows no program for ${name}`);
  return `\`\`\`${fences[name]}\n${program.code}\n\`\`\``;
}
