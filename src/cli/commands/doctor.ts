import { Command } from 'commander';
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

export function doctorCommand(terminal: Terminal): Command {
  return new Command('doctor')
    .description('check the database, keys, upstreams and settings, and say what to do')
    .option('--json', 'print the findings as JSON')
    .addHelpText('after', help)
    .action(async ({ json }: { readonly json?: true }) => {
      const { diagnose } = await import('../doctor/diagnose.ts');
      const diagnosis = await diagnose(terminal.env, terminal.now);
      if (json) terminal.print(toJson(diagnosis, 2));
      else for (const line of diagnosis.findings.flatMap((finding) => linesOf(finding, terminal))) terminal.print(line);
      requireOk(diagnosis);
    });
}
