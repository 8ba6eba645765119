import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from '../support/servers/free-ports.ts';
import { type CodeBlock, codeBlocks } from './documents.ts';

const run = promisify(execFile);

/** Serves the `POST` of a route handler as a framework does, at the port that the other programs use. */
const routeServer = (handler: string) => `
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { POST } from './${handler}';

createServer(async (req, res) => {
  const request = new Request('http://receiver/hooks', { method: 'POST', headers: req.headers as Record<string, string>, body: await buffer(req) });
  const response = await POST(request);
  res.writeHead(response.status).end(await response.text());
}).listen(4000);
`;

/** The block with this text in a document, so that a test finds it wherever it moves. */
export function blockWith(document: string, language: string, text: string): CodeBlock {
  const found = codeBlocks.filter((block) => block.document === document && block.language === language);
  const block = found.find(({ code }) => code.includes(text));
  if (!block) throw new Error(`${document} has no block of ${language} with ${text}`);
  return block;
}

/** Writes a program of the documentation into a folder, and says what runs it. */
async function prepare(folder: string, { language, code }: CodeBlock, port: number): Promise<[string, ...string[]]> {
  const name = `program-${port}`;
  const onPort = (text: string) => text.replaceAll('4000', String(port));
  const write = (file: string, text: string) => writeFile(path.join(folder, file), onPort(text));
  switch (language) {
    case 'python':
      await write(`${name}.py`, code);
      return ['python3', `${name}.py`];
    case 'go':
      await write(`${name}.go`, code);
      await run('go', ['build', '-o', name, `${name}.go`], { cwd: folder });
      return [path.join(folder, name)];
    case 'java':
      await write(`${name}.java`, code);
      return ['java', `${name}.java`];
    case 'php':
      await write(`${name}.php`, code);
      return ['php', '-S', `127.0.0.1:${port}`, `${name}.php`];
    default: {
      await write(`${name}.mts`, code);
      const isRoute = code.includes('export async function POST');
      if (isRoute) await write(`${name}-server.mts`, routeServer(`${name}.mts`));
      return [process.execPath, '--import', 'tsx', isRoute ? `${name}-server.mts` : `${name}.mts`];
    }
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** A program of the documentation that listens. */
export interface RunningProgram {
  readonly url: string;
  /** What it has printed so far. */
  printed(): string;
  stop(): Promise<void>;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** Starts a program of the documentation that listens on port 4000, on a port that is free. */
export async function startProgram(
  folder: string,
  block: CodeBlock,
  env: Record<string, string>,
): Promise<RunningProgram> {
  const port = await freePorts(1);
  const [command, ...args] = await prepare(folder, block, port);
  const child = spawn(command, args, { cwd: folder, env: { ...process.env, ...env } });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      printed += bytes.toString();
    });
  }
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${block.document}:${block.line} has ended:\n${printed}`);
    // asked again until it listens, which takes as long as its runtime takes to start
    await sleep(50);
  }
  return { url: `http://127.0.0.1:${port}/hooks`, printed: () => printed, stop: () => stop(child) };
}

/** Runs a program of the documentation to its end. */
export async function output(folder: string, block: CodeBlock, env: Record<string, string>): Promise<string> {
  const [command, ...args] =
    block.language === 'sh' ? ['bash', '-euc', block.code] : await prepare(folder, block, await freePorts(1));
  const { stdout } = await run(command as string, args, { cwd: folder, env: { ...process.env, ...env } });
  return stdout.trim();
}
