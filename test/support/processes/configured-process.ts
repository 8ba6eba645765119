import { type ChildProcess, type ForkOptions, fork } from 'node:child_process';

/**
 * Starts a script as a process of its own. Its configuration goes into its environment, for a command line, and the
 * password of a MongoDB URI in it, would be shown to every user of the machine.
 */
export function forkConfigured(script: string, config: unknown, options: ForkOptions): ChildProcess {
  const env = { ...(options.env ?? process.env), PROCESS_CONFIG: JSON.stringify(config) };
  return fork(script, { ...options, env });
}
