import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { atOnce } from '../support/at-once.ts';
import { forkCompiled } from '../support/processes/compiled-script.ts';
import type { DeadlyCommand, ProcessConfig } from './killed-process.ts';

/** A gateway, or what counts usage, in an operating system's process of its own. */
export interface KillableProcess {
  readonly child: ChildProcess;
  /** Of its gateway, without `/v1`. */
  readonly url: string;
  /** Resolves when it has died. */
  readonly died: Promise<unknown>;
  /** Resolves when it is dead. */
  kill(): Promise<void>;
  /** Has it kill itself as soon as it has sent that. */
  dieOf(command: DeadlyCommand): void;
}

const script = fileURLToPath(new URL('./killed-process.ts', import.meta.url));

export async function startProcess(config: ProcessConfig): Promise<KillableProcess> {
  const child = await forkCompiled(script, config);
  const died = once(child, 'exit');
  const started = await Promise.race([once(child, 'message'), died.then(() => undefined)]);
  if (!started) throw new Error('a process ended before it served');
  const [{ url }] = started as [{ url: string }];
  return {
    child,
    url,
    died,
    async kill() {
      child.kill('SIGKILL');
      await died;
    },
    dieOf: (command) => void child.send(command),
  };
}

/** What a row has at hand. */
export interface Stage {
  /** Starts a process, the first or its successor; at the end it is killed. */
  start(config: ProcessConfig): Promise<KillableProcess>;
  /** Has this done at the end, before what was deferred earlier. */
  defer(close: () => unknown): void;
}

/** One line of the table. */
export interface Row {
  /** What the process is at when it is killed. */
  readonly subject: string;
  readonly killed: string;
  /** What holds with its successor. */
  readonly holds: string;
  show(stage: Stage): Promise<void>;
}

async function showOn({ show }: Row): Promise<void> {
  const closing: (() => unknown)[] = [];
  const defer: Stage['defer'] = (close) => void closing.unshift(close);
  const start: Stage['start'] = async (config) => {
    const started = await startProcess(config);
    defer(started.kill);
    return started;
  };
  try {
    await show({ start, defer });
  } finally {
    for (const close of closing) await close();
  }
}

/** The rows as tests. Those that mostly wait run at once, those that keep the machine busy one after the other. */
export function describeKills(rows: readonly Row[], order: 'at once' | 'in turn'): void {
  describe('What the successor of a killed process makes of', function () {
    this.timeout(300_000);
    const tests = rows.map((row) => [`${row.subject}, killed ${row.killed}: ${row.holds}`, () => showOn(row)] as const);
    if (order === 'at once') atOnce(Object.fromEntries(tests));
    else for (const [title, test] of tests) it(title, test);
  });
}
