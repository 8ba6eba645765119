import { spawn } from 'node:child_process';

/** How long a command may take. Milliseconds. */
export const commandTime = 240_000;

/**
 * Runs a command line. Where it takes too long, it is ended with all that it has started.
 * @throws Error with everything that it wrote, if its status is not 0
 */
export function shell(
  command: string,
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
): Promise<{ stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', command], { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    const timer = setTimeout(() => {
      if (child.pid) process.kill(-child.pid, 'SIGKILL');
    }, commandTime);
    child.on('error', reject);
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      if (status === 0) resolve({ stdout, stderr });
      else reject(new Error(`${command}: ${signal ?? `status ${status}`}\n${stdout}\n${stderr}`));
    });
  });
}
