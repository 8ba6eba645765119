import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';

/** The addresses of a name in a hosts file, in the order of the file. Pure. */
export function addressesIn(hostsFile: string, hostname: string): string[] {
  const canonicalName = hostname.toLowerCase().replace(/\.$/, '');
  const addresses: string[] = [];
  for (const line of hostsFile.split(/\r?\n/)) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) !== 0 && names.some((name) => name.toLowerCase() === canonicalName)) addresses.push(address);
  }
  return addresses;
}

/**
 * Looks names up in a hosts file, and reads it again when it has changed. A missing file has no names. Reads synchronously, because
 * the thread pool may be full of look-ups that wait for a slow name server.
 */
export function createHostsFile(location: string): (hostname: string) => string[] {
  let version = '';
  let text = '';

  function read(): string {
    const { mtimeMs, size } = statSync(location);
    if (version !== `${mtimeMs} ${size}`) {
      text = readFileSync(location, 'utf8');
      version = `${mtimeMs} ${size}`;
    }
    return text;
  }

  return function addressesOf(hostname) {
    try {
      return addressesIn(read(), hostname);
    } catch {
      return [];
    }
  };
}
