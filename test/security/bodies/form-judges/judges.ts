import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import busboy from 'busboy';
import { Response } from 'undici';

/** A form as it is sent. */
export interface SentForm {
  readonly type: string;
  readonly body: Buffer;
}

/** The texts that a reader finds under each name, or why it refuses the form. */
export type Reading = ReadonlyMap<string, readonly string[]> | Error;

/** A widespread reader of forms. */
export interface Judge {
  readonly name: string;
  read(form: SentForm): Promise<Reading>;
  close(): void;
}

function collector() {
  const fields = new Map<string, string[]>();
  const add = (name: string, text: string): void => {
    fields.set(name, [...(fields.get(name) ?? []), text]);
  };
  return { fields, add };
}

function readByBusboy({ type, body }: SentForm): Promise<Reading> {
  return new Promise((resolve) => {
    const { fields, add } = collector();
    try {
      const reader = busboy({ headers: { 'content-type': type } });
      reader.on('field', add);
      reader.on('file', (_name, file) => file.resume());
      reader.on('error', (error) => resolve(error as Error));
      reader.on('close', () => resolve(fields));
      reader.end(body);
    } catch (error) {
      resolve(error as Error);
    }
  });
}

async function readByUndici({ type, body }: SentForm): Promise<Reading> {
  const { fields, add } = collector();
  try {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    for (const [name, value] of form) if (typeof value === 'string') add(name, value);
    return fields;
  } catch (error) {
    return error as Error;
  }
}

interface Line {
  readonly fields?: Readonly<Record<string, readonly string[]>>;
  readonly error?: string;
}

function toReading({ fields, error }: Line): Reading {
  if (error !== undefined) return new Error(error);
  const texts = (values: readonly string[]) => values.map((value) => Buffer.from(value, 'base64').toString('utf8'));
  return new Map(Object.entries(fields ?? {}).map(([name, values]) => [name, texts(values)]));
}

/** A process that reads one form for each line, so that thousands cost little. */
function processJudge(name: string, child: ChildProcess): Judge {
  const waiting: ((reading: Reading) => void)[] = [];
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error('the process has no pipes');
  createInterface({ input: stdout }).on('line', (line) => waiting.shift()?.(toReading(JSON.parse(line) as Line)));
  child.on('exit', () => {
    for (const give of waiting.splice(0)) give(new Error(`the process of ${name} has ended`));
  });
  return {
    name,
    read: ({ type, body }) =>
      new Promise((resolve) => {
        waiting.push(resolve);
        stdin.write(`${JSON.stringify({ type, body: body.toString('base64') })}\n`);
      }),
    close: () => void stdin.end(),
  };
}

const here = fileURLToPath(new URL('.', import.meta.url));
const run = promisify(execFile);

async function startGo(): Promise<Judge> {
  const folder = await mkdtemp(join(tmpdir(), 'form-judge-'));
  try {
    const program = join(folder, 'judge');
    const env = { ...process.env, GOTOOLCHAIN: 'local', GO111MODULE: 'off' };
    await run('go', ['build', '-o', program, join(here, 'main.go')], { env });
    const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
    const judge = processJudge("Go's mime/multipart", child);
    child.on('exit', () => void rm(folder, { recursive: true, force: true }));
    return judge;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Installs werkzeug once for each version of Python and of the list. */
async function pythonPackages(): Promise<string> {
  const requirements = join(here, 'requirements.txt');
  const { stdout } = await run('python3', ['--version']);
  const version = createHash('sha256').update(stdout).update(readFileSync(requirements)).digest('hex').slice(0, 16);
  const folder = join(tmpdir(), `form-judge-python-${version}`);
  if (existsSync(folder)) return folder;
  const fresh = await mkdtemp(`${folder}-`);
  const pip = ['-m', 'pip', 'install', '--quiet', '--require-hashes', '--only-binary', ':all:'];
  try {
    await run('python3', [...pip, '--target', fresh, '--requirement', requirements]);
    await rename(fresh, folder);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    // another process may have been first
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

async function startPython(): Promise<Judge> {
  const env = { ...process.env, PYTHONPATH: await pythonPackages(), PYTHONDONTWRITEBYTECODE: '1' };
  const child = spawn('python3', [join(here, 'judge.py')], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const judge = processJudge('werkzeug', child);
  const probe = await judge.read({ type: 'multipart/form-data; boundary=x', body: Buffer.from('--x--\r\n') });
  if (probe instanceof Error) throw probe;
  return judge;
}

/** A judge that could not be started. */
export interface MissingJudge {
  /** Which, and why. */
  readonly reason: string;
  /** Whether the machine has not the language itself, which is nothing that the tests install. */
  readonly hasNoLanguage: boolean;
}

/** The judges that this machine has, and why it has not the others. Those of Node are always among them. */
export async function startJudges(): Promise<{ judges: readonly Judge[]; missing: readonly MissingJudge[] }> {
  const ofNode = [
    { name: 'busboy', read: readByBusboy, close() {} },
    { name: 'undici', read: readByUndici, close() {} },
  ];
  const started = await Promise.allSettled([startGo(), startPython()]);
  const judges = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const missing = ['Go', 'Python with werkzeug'].flatMap((name, i) => {
    const one = started[i];
    if (one?.status !== 'rejected') return [];
    const reason = `${name}: ${String(one.reason).split('\n')[0]}`;
    return [{ reason, hasNoLanguage: (one.reason as NodeJS.ErrnoException).code === 'ENOENT' }];
  });
  return { judges: [...ofNode, ...judges], missing };
}
