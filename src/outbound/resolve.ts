import { Resolver } from 'node:dns/promises';
import { addressesIn, readHostsFile } from './hosts-file.ts';

/** Every address of a name, or a rejection with the resolver's `code`. */
export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

/** What `localhost` and `*.localhost` mean: always this machine, whatever a resolver says (RFC 6761, section 6.3). */
export const loopbackAddresses: readonly string[] = ['127.0.0.1', '::1'];

/** Whether a name is `localhost` or below it. */
export function isLocalhost(hostname: string): boolean {
  return /(^|\.)localhost\.?$/i.test(hostname);
}

/**
 * Resolves by c-ares, which leaves the thread pool alone: a dead name server holds up nothing but its own names.
 * c-ares reads no hosts file, so that is asked first.
 * @param timeout milliseconds for one try; there are two
 */
export function createResolver(timeout: number): ResolveHost {
  return async function resolveHost(hostname) {
    const fromFile = addressesIn(await readHostsFile(), hostname);
    if (fromFile.length > 0) return fromFile;

    const resolver = new Resolver({ timeout, tries: 2 });
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses = [v4, v6].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length === 0 && v4.status === 'rejected') throw v4.reason;
    return addresses;
  };
}
