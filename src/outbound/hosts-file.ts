import { readFile } from 'node:fs/promises';

const location = '/etc/hosts';

/** The addresses that a hosts file gives to a name, in its order. Pure. */
export function addressesIn(hostsFile: string, hostname: string): string[] {
  const wanted = hostname.toLowerCase();
  const found: string[] = [];
  for (const line of hostsFile.split(/\r?\n/)) {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (address && names.some((name) => name.toLowerCase() === wanted)) found.push(address);
  }
  return found;
}

/** The text of this machine's hosts file; empty where there is none. */
export async function readHostsFile(): Promise<string> {
  return await readFile(location, 'utf8').catch(() => '');
}
