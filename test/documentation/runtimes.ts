import { spawnSync } from 'node:child_process';

/** A program beside Node that runs blocks of the documentation. */
export interface Runtime {
  readonly command: string;
  /** What makes it say its version. */
  readonly version: readonly string[];
}

export const python: Runtime = { command: 'python3', version: ['--version'] };
export const go: Runtime = { command: 'go', version: ['version'] };
export const java: Runtime = { command: 'java', version: ['-version'] };
export const cargo: Runtime = { command: 'cargo', version: ['--version'] };
export const php: Runtime = { command: 'php', version: ['--version'] };

/** Skips a test, and says why, where its runtime is not installed. */
export function skipWithout(test: Mocha.Context, { command, version }: Runtime): void {
  if (spawnSync(command, version).status === 0) return;
  console.error(`      skipped for want of ${command}`);
  test.skip();
}
