import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import type { Origin } from '../scale/measured.ts';

/** What this is measured on. */
export function machineOf(): string {
  const [cpu] = cpus();
  return `${cpus().length} × ${cpu?.model}, Node ${process.versions.node}`;
}

/** Where and when this is measured. */
export function originOf(): Origin {
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync('git', ['describe', '--always', '--exclude=*', '--abbrev=10'], { encoding: 'utf8' }).trim(),
    machine: machineOf(),
  };
}
