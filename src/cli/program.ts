import { Command } from 'commander';
import { readVersion } from '../version.ts';
import { throughApi } from './client/api-command.ts';
import { accountsCommand } from './commands/accounts/accounts.ts';
import { budgetsCommand } from './commands/accounts/budgets.ts';
import { creditsCommand } from './commands/accounts/credits.ts';
import { usageCommand } from './commands/accounts/usage.ts';
import { deliveriesCommand } from './commands/deliveries/command.ts';
import { doctorCommand } from './commands/doctor.ts';
import { eventsCommand } from './commands/events/command.ts';
import { publishStoredCommand } from './commands/events/publish.ts';
import { findCommand } from './commands/find.ts';
import { keysCommand } from './commands/keys/command.ts';
import { listenCommand } from './commands/listen/listen.ts';
import { migrateCommand } from './commands/migrate.ts';
import { resealCommand } from './commands/reseal.ts';
import { startCommand } from './commands/start.ts';
import { statusCommand } from './commands/status.ts';
import { testCommand } from './commands/test-webhook.ts';
import { webhooksCommand } from './commands/webhooks/command.ts';
import { createPublishStored } from './database/stored-events.ts';
import type { Terminal } from './terminal/terminal.ts';

const overTheApi = 'Through the API of a gateway (--base-url, --api-key):';
const here = 'On this machine:';

function inGroup(heading: string, ...commands: readonly Command[]): readonly Command[] {
  return commands.map((command) => command.helpGroup(heading));
}

const afterHelp = `
Every command has its own --help with examples. start --help lists the environment variables.
Exit codes: 0 for success, 1 if the gateway refused or a delivery failed, 2 if the command was typed wrongly.
doctor has exit codes of its own.`;

/** A command and all below it. */
function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

/**
 * The command line, with a command for each thing it does. It prints on `terminal` and throws instead of ending the
 * process: a CommanderError after help or a command typed wrongly.
 */
export function createProgram(terminal: Terminal): Command {
  const program = new Command('express-model-gateway')
    .description('A stand-alone gateway for language models with signed account webhooks')
    .version(readVersion(), '--version')
    .addHelpText('after', afterHelp);
  const publishStored = createPublishStored(terminal.env);
  const commands = [
    ...inGroup(
      here,
      startCommand(),
      listenCommand(terminal),
      migrateCommand(terminal),
      doctorCommand(terminal),
      resealCommand(),
    ),
    ...inGroup(
      overTheApi,
      webhooksCommand(terminal),
      throughApi(testCommand(terminal)),
      deliveriesCommand(terminal),
      eventsCommand(terminal, publishStored),
      keysCommand(terminal),
      budgetsCommand(terminal),
      creditsCommand(terminal),
      throughApi(usageCommand(terminal)),
      accountsCommand(terminal),
      throughApi(findCommand(terminal)),
      throughApi(statusCommand(terminal)),
    ),
  ];
  for (const command of commands) program.addCommand(command);
  program.addCommand(publishStoredCommand(terminal, publishStored), { hidden: true });
  for (const command of everyCommand(program)) {
    command
      .exitOverride()
      .showHelpAfterError('(--help shows how it is used, with examples)')
      .configureOutput({
        writeOut: (text) => terminal.print(text.trimEnd()),
        writeErr: (text) => terminal.printNote(text.trimEnd()),
      });
  }
  return program;
}
