import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** The command line as it is shipped, which starts in a fourth of the time that its source takes. */
export const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The command line as a process of its own, with what it has printed so far. */
export class CommandProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout = '';
  stderr = '';

  constructor(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    nodeOptions: readonly string[] = [],
    script = cli,
  ) {
    // an environment of its own: what the developer has set must not decide the test
    const inherited = Object.fromEntries(
      ['PATH', 'HOME', 'XDG_CACHE_HOME', 'PIP_FIND_LINKS'].map((name) => [name, process.env[name]]),
    );
    this.child = spawn(process.execPath, [...nodeOptions, script, ...args], {
      env: { ...inherited, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.exited = once(this.child, 'close').then(([code]) => code);
  }

  /** Resolves with the first match in what it prints; rejects when it ends without one. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const ended = this.exited.then(() => 'ended' as const);
    for (;;) {
      const found = pattern.exec(this.stdout);
      if (found) return found;
      const printed = once(this.child.stdout as NodeJS.ReadableStream, 'data');
      if ((await Promise.race([printed, ended])) === 'ended' && !pattern.test(this.stdout)) {
        throw new Error(`it ended without ${pattern}:\n${this.stdout}\n${this.stderr}`);
      }
    }
  }

  /** Ends it as Ctrl-C or a supervisor would. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal);
    return this.exited;
  }
}

/** Runs a command to its end. */
export async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const command = new CommandProcess(args, env);
  const code = await command.exited;
  return { code, stdout: command.stdout.trim(), stderr: command.stderr.trim() };
}
