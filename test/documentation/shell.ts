import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../package/tarball.ts';

const command = 'node_modules/express-model-gateway/dist/cli/main.js';

/** Installs nothing and tests nothing: the folder has the packages already, and the gate runs `npm ci && npm test` itself. */
const npm = (folder: string) => `#!/bin/sh
case "$1" in
  ci|install|test) ;;
  start) exec "${process.execPath}" "${path.join(folder, command)}" start ;;
  *) echo "test/documentation/shell.ts has no npm $1" >&2; exit 1 ;;
esac
`;

const npx = (folder: string) => `#!/bin/sh
name=$1
shift
if [ "$name" = express-model-gateway ]; then exec "${process.execPath}" "${path.join(folder, command)}" "$@"; fi
exec "${path.join(root, 'node_modules/.bin')}/$name" "$@"
`;

/** Puts `npm` and `npx` into a folder with the packed package, where its shells find them. */
export async function addPrograms(folder: string): Promise<void> {
  const bin = path.join(folder, 'bin');
  await mkdir(bin);
  for (const [name, script] of Object.entries({ npm, npx })) {
    await writeFile(path.join(bin, name), script(folder));
    await chmod(path.join(bin, name), 0o755);
  }
}

/** A script of the documentation, running or ended. */
export class Shell {
  /** What it has printed so far, errors included. */
  output = '';
  /** Resolves with its exit code; `null` if a signal ended it. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  #isOver = false;

  constructor(script: string, folder: string, env: Readonly<Record<string, string>>) {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env: {
        HOME,
        ...env,
        PATH: [path.join(folder, 'bin'), path.dirname(process.execPath), PATH].join(path.delimiter),
      },
      // a process group of its own, so that everything it starts can be ended
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
        child.emit('output');
      });
    }
    this.ended = once(child, 'close').then(([code]) => {
      this.#isOver = true;
      child.emit('output');
      return code;
    });
    this.#child = child;
  }

  /** Resolves with the first match in its output; rejects if it ends without one. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.output);
      if (match) return match;
      if (this.#isOver) throw new Error(`It ended without ${pattern}:\n${this.output}`);
      await once(this.#child, 'output');
    }
  }

  /** Ends it and everything it has started. */
  async end(): Promise<void> {
    const { pid } = this.#child;
    if (pid === undefined || this.#isOver) return;
    process.kill(-pid, 'SIGTERM');
    await this.ended;
  }
}
