import type { Variable } from './variable.ts';
import { variables } from './variables.ts';

const rows = Object.entries<Variable<unknown>>(variables);

/** The variables as `--help` shows them. */
export function variablesForHelp(): string {
  const lines = rows.map(([name, { meaning, reader, default: byDefault, example }]) => {
    return `  ${name}\n      ${meaning}.\n      Takes ${reader.allowed}.\n      Default: ${byDefault}. Example: ${name}=${example}`;
  });
  return ['Environment variables:', ...lines].join('\n');
}

/** The variables as docs/configuration.md shows them: a Markdown table. */
export function variablesForReadme(): string {
  const cells = rows.map(([name, { meaning, reader, default: byDefault, example }]) => {
    return `| \`${name}\` | ${meaning}. Takes ${reader.allowed}. | ${byDefault} | \`${example}\` |`;
  });
  return ['| variable | meaning | default | example |', '|---|---|---|---|', ...cells].join('\n');
}
