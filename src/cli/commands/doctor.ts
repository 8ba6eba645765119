import { Command } from 'commander';
import { describedName } from '../../openapi/described-code.ts';
import type { Diagnosis, DoctorFinding } from '../doctor/diagnose.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import type { Style, Terminal } from '../terminal/terminal.ts';
import { printable, toJson } from '../terminal/text.ts';

const help = `
Checks the versions, the replica set, the indexes, the clocks, the sealing keys, each upstream, what webhooks may reach, and
what is due. It changes nothing, and asks each upstream for its models once. MONGODB_URI alone is enough; the checks of what is
not set are skipped. Without MONGODB_URI, it takes the embedded database found through DATA_DIR while its gateway runs.

Exit codes: 0 if everything is ok, 1 if there are only warnings, 2 if a check failed,
3 if the command was typed wrongly or ended unexpectedly, so that nothing is known.

Examples:
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway doctor
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway doctor --json
  $ express-model-gateway doctor insufficient_credits
  $ express-model-gateway doctor http_503
`;

const styles: Readonly<Record<DoctorFinding['status'], Style>> = {
  ok: 'green',
  warning: 'yellow',
  failed: 'red',
  skipped: 'dim',
};

function linesOf({ status, check, message, remedy }: DoctorFinding, { paint }: Terminal): string[] {
  const first = `${paint(styles[status], status.padEnd(8))} ${check}: ${printable(message)}`;
  return remedy === undefined ? [first] : [first, `${' '.repeat(9)}${printable(remedy)}`];
}

function requireOk({ status, findings }: Diagnosis): void {
  if (status === 'ok') return;
  const count = (wanted: DoctorFinding['status']) => findings.filter((finding) => finding.status === wanted).length;
  const warnings = count('warning');
  const message = `${count('failed')} failed, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`;
  throw new CommandFailure(message, status === 'failed' ? 2 : 1);
}

/** What a code of an error means, and what to do. */
async function explainCode(code: string, { print, paint }: Terminal, json: boolean): Promise<void> {
  const [{ describeCodes }, { sharedSpec }] = await Promise.all([
    import('../../openapi/error-codes.ts'),
    import('../../openapi/spec.ts'),
  ]);
  const found = describeCodes(sharedSpec()).find((described) => described.code === describedName(code));
  if (!found)
    throw new CommandFailure(`No error of the gateway has the code ${code}: docs/errors.md lists them all.`, 3);
  if (json) return print(toJson(found, 2));
  const { status, type, meaning } = found;
  print(`${paint('bold', code)} ${status === null ? '(an attempt to deliver an event)' : `(${status}, ${type})`}`);
  print(`  ${meaning.replaceAll('`', '')}`);
}

export function doctorCommand(terminal: Terminal): Command {
  return new Command('doctor')
    .description('check the database, keys, upstreams and settings, and say what to do; or explain an error code')
    .argument('[code]', 'an error code of the API or of a delivery, to explain in place of the checks')
    .option('--json', 'print the findings as JSON')
    .addHelpText('after', help)
    .action(async (code: string | undefined, { json = false }: { readonly json?: boolean }) => {
      if (code !== undefined) return explainCode(code, terminal, json);
      const { diagnose } = await import('../doctor/diagnose.ts');
      const diagnosis = await diagnose(terminal.env, terminal.now);
      if (json) terminal.print(toJson(diagnosis, 2));
      else for (const line of diagnosis.findings.flatMap((finding) => linesOf(finding, terminal))) terminal.print(line);
      requireOk(diagnosis);
    });
}
