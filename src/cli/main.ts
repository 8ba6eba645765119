#!/usr/bin/env node
import module from 'node:module';
import { join } from 'node:path';
import { defaultCacheFolder } from './cache-folder.ts';

// From the second start on, a server takes 0.86 times the CPU until its first answer (0.76 to 0.96 in five pairs, Node 24), for 7 MB; Node 20 keeps
// nothing. Node's own default is in the folder for temporary files, where another user of the machine could have put code before.
(module as { enableCompileCache?(folder: string): unknown }).enableCompileCache?.(
  join(defaultCacheFolder(), 'compiled'),
);

// only what is loaded from here on is kept
const [{ runCommand }, { processTerminal }] = await Promise.all([
  import('./program.ts'),
  import('./terminal/terminal.ts'),
]);
process.exitCode = await runCommand(process.argv.slice(2), processTerminal());
