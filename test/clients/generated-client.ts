import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Runtime } from '../documentation/runtimes.ts';
import type { PlannedCall } from './plan.ts';

/** What the calls of a plan are made with. */
export interface Plan {
  /** The address of the gateway, without `/v1`. */
  readonly url: string;
  readonly key: string;
  readonly calls: readonly PlannedCall[];
}

type Command = readonly [command: string, ...args: string[]];

/** A language, and the generator that makes a client for it. */
export interface ClientGenerator {
  readonly name: string;
  /** What has to be installed beside Node. */
  readonly runtimes: readonly Runtime[];
  /** Generates and builds a client in a folder; resolves to what the generator has printed. */
  generate(folder: string, plan: Plan): Promise<string>;
  /** The program that reads the plan from its standard input and prints an {@link Outcome} for each call, a line each. */
  program(folder: string): Command | Promise<Command>;
  /** Writes the program of docs/clients.md into the folder of the client; resolves to the command that runs it. */
  example(folder: string): Promise<Command>;
  readonly env?: () => Promise<NodeJS.ProcessEnv>;
}

/** What has come of one call. */
export interface Outcome {
  readonly operationId: string;
  /** What went wrong, where the client has not answered. */
  readonly error?: string;
  /** What the client has made of the answer. */
  readonly parsed?: unknown;
}

/** Runs a program to its end; resolves to what it has printed, and rejects with it where it fails. */
export function run(
  [command, ...args]: readonly [string, ...string[]],
  { cwd, env = {}, input = '' }: { cwd: string; env?: NodeJS.ProcessEnv; input?: string },
): Promise<{ stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env } });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve({ stdout, stderr });
      else
        reject(
          new Error(`${command} ${args.join(' ').slice(0, 500)}: ${code}\n${`${stdout}${stderr}`.slice(0, 8_000)}`),
        );
    });
    // one that has ended without reading its input is judged by its exit code
    child.stdin.on('error', () => {}).end(input);
  });
}

/**
 * A folder that is filled once for each `key`, and kept for later runs.
 * @param fill fills an empty folder
 */
export async function keptFolder(
  name: string,
  key: string,
  fill: (folder: string) => Promise<unknown>,
): Promise<string> {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 16);
  const folder = join(tmpdir(), `generated-clients-${name}-${hash}`);
  if (existsSync(folder)) return folder;
  const fresh = await mkdtemp(`${folder}-`);
  try {
    await fill(fresh);
    await rename(fresh, folder);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    // another process may have been first
    if (!existsSync(folder)) throw error;
  }
  return folder;
}
