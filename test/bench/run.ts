import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { installPackages, nodeBinary, nodeFolder } from '../hosts/install.ts';

/**
 * Runs a benchmark, with all the processes that it starts, on the Node that `--node` names: `run.ts relay --node=20 --quick`. A version that is
 * not this process's comes from the registry.
 */
const [name = '', ...given] = process.argv.slice(2);
const option = '--node=';
const version = given.findLast((argument) => argument.startsWith(option))?.slice(option.length) ?? '24';
const args = given.filter((argument) => !argument.startsWith(option));
const isMajor = /^\d+$/.test(version);
const isHere = process.versions.node.startsWith(`${version}.`) || args.includes('--help');
const installed = isMajor && !isHere ? await installPackages(nodeBinary(Number(version))) : undefined;

try {
  const own = isMajor ? process.execPath : version;
  const node = installed ? `${nodeFolder(installed, Number(version))}/node` : own;
  const script = fileURLToPath(new URL(`${name}/index.ts`, import.meta.url));
  const child = spawn(node, ['--import', 'tsx', script, ...args], { stdio: 'inherit' });
  // a terminal interrupts the benchmark itself; what is installed is removed once it has ended
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => child.kill());
  const [status] = await once(child, 'exit');
  process.exitCode = status ?? 1;
} finally {
  if (installed) await rm(installed, { recursive: true });
}
