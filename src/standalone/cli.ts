#!/usr/bin/env node
import { explainError } from './explain-error.ts';
import { createProgram } from './program.ts';

createProgram()
  .parseAsync()
  .catch((error) => {
    console.error(explainError(error));
    process.exitCode = 1;
  });
