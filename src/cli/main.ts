#!/usr/bin/env node
import { runCommand } from './program.ts';
import { processTerminal } from './terminal/terminal.ts';

process.exitCode = await runCommand(process.argv.slice(2), processTerminal());
