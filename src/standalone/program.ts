import { Command } from 'commander';
import { readVersion } from '../version.ts';
import { keysCommand } from './keys-command.ts';
import { listenCommand } from './listen-command.ts';
import { publishCommand } from './publish-command.ts';
import { resealCommand } from './reseal-command.ts';
import { startCommand } from './start-command.ts';

/** The command line, with a command for each thing it does. */
export function createProgram(): Command {
  return new Command('express-model-gateway')
    .description('A gateway for language models with signed account webhooks, by itself')
    .version(readVersion(), '--version')
    .addCommand(startCommand())
    .addCommand(publishCommand())
    .addCommand(listenCommand())
    .addCommand(keysCommand())
    .addCommand(resealCommand())
    .showHelpAfterError()
    .addHelpText('after', '\nEvery command has its own --help; the one of start lists the environment variables.');
}
