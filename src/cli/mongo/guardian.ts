import { spawn } from 'node:child_process';

/**
 * A separate process that ends shortly after this one. Each line on its stdin is the pid of a mongod;
 * when stdin ends, which it does however this process ends (SIGKILL too), it ends those and exits.
 */
const program = `
const pids = new Set();
const folder = process.argv[1];
const signal = (name) => {
  for (const pid of pids) try { process.kill(pid, name); } catch { pids.delete(pid); }
};
let rest = '';
process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = (rest + text).split('\\n');
  rest = lines.pop();
  for (const line of lines) line.startsWith('-') ? pids.delete(Number(line.slice(1))) : pids.add(Number(line));
});
process.stdin.on('error', () => {}).on('close', () => {
  signal('SIGTERM');
  const deadline = Date.now() + 10000;
  const timer = setInterval(() => {
    signal(Date.now() < deadline ? 0 : 'SIGKILL');
    if (pids.size > 0) return;
    clearInterval(timer);
    if (folder) require('node:fs').rmSync(folder, { recursive: true, force: true });
  }, 50);
});
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => {});
`;

/** Ends the mongods of this process if it cannot do so itself. */
export interface Guardian {
  watch(pid: number): void;
  forget(pid: number): void;
  /** Stops the guardian, which ends what it still watches. */
  release(): void;
}

/** @param folder removed once everything watched has ended; only for data that need not be kept */
export function startGuardian(folder?: string): Guardian {
  const child = spawn(process.execPath, ['-e', program, ...(folder ? [folder] : [])], {
    // a separate session: Ctrl-C in the terminal goes to the gateway alone, which then ends mongod in order
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.unref();
  // net.Socket has unref; the declared Writable has not
  (child.stdin as unknown as { unref(): void }).unref();
  return {
    watch: (pid) => void child.stdin.write(`${pid}\n`),
    forget: (pid) => void child.stdin.write(`-${pid}\n`),
    release: () => void child.stdin.end(),
  };
}
