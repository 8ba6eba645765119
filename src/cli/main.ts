#!/usr/bin/env node
import { runCommand } from './run.ts';
import { processTerminal } from './terminal/process-terminal.ts';

process.exitCode = await runCommand(process.argv.slice(2), processTerminal());
