import { execFile } from 'node:child_process';

/** Whether a mongod starts here at all, and if not what the system says: a missing library, another architecture. */
export type Runnable =
  | { readonly ok: true; readonly version: string }
  | { readonly ok: false; readonly reason: string };

/** Asks a binary for its version, which needs everything it is linked against. */
export function tryBinary(path: string): Promise<Runnable> {
  return new Promise((resolve) => {
    execFile(path, ['--version'], { timeout: 15_000 }, (error, stdout, stderr) => {
      const version = /db version v(\S+)/.exec(stdout)?.[1];
      if (version) return resolve({ ok: true, version });
      const reason = (stderr.trim() || error?.message || 'it does not answer to --version').split('\n')[0] ?? '';
      resolve({ ok: false, reason });
    });
  });
}
