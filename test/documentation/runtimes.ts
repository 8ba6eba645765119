import { spawnSync } from 'node:child_process';

/** A program beside Node that runs blocks of the documentation. */
export interface Runtime {
  readonly command: string;
  /** What makes it say its version. */
  readonly version: readonly string[];
  /** Whether the gate goes without it. @default false: it is installed there, and a test that lacks it fails */
  readonly isOptional?: boolean;
}

export const python: Runtime = { command: 'python3', version: ['--version'] };
export const go: Runtime = { command: 'go', version: ['version'] };
export const java: Runtime = { command: 'java', version: ['-version'] };
export const cargo: Runtime = { command: 'cargo', version: ['--version'] };
export const php: Runtime = { command: 'php', version: ['--version'] };

/** Skips a test, and says why, where its runtime is not installed. In the gate, nothing is skipped unnoticed. */
export function skipWithout(test: Mocha.Context, { command, version, isOptional = false }: Runtime): void {
  const { status, stderr } = spawnSync(command, version, { encoding: 'utf8' });
  if (status === 0) return;
  if (process.env.CI && !isOptional) throw new Error(`${command} is missing: .ci/run installs it. ${stderr ?? ''}`);
  console.error(`      skipped for want of ${command}`);
  test.skip();
}
