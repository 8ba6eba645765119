import { Resolver } from 'node:dns/promises';
import { createHostsFile } from './hosts-file.ts';

/** Resolves with all addresses of a name, or rejects with the resolver's `code`. */
export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

/** The addresses of `localhost` and `*.localhost`: always this machine, whatever a resolver says (RFC 6761, section 6.3). */
export const loopbackAddresses: readonly string[] = ['127.0.0.1', '::1'];

/** Whether a name is `localhost` or below it. */
export function isLocalhost(hostname: string): boolean {
  return /(^|\.)localhost\.?$/i.test(hostname);
}

/** How names are resolved. Durations are milliseconds. */
export interface ResolverOptions {
  /** Time for one name, all tries included. @default 5_000 */
  readonly timeout?: number;
  /** How long the addresses of one family wait for those of the other. @default 1_000 */
  readonly maxWait?: number;
  /** The name servers, each `address` or `address:port`. @default the system's */
  readonly servers?: readonly string[];
  /** Asked before any name server. @default '/etc/hosts' */
  readonly hostsFile?: string;
}

/**
 * Resolves names with c-ares, which does not use the thread pool: a slow name server delays only its own names. c-ares reads no
 * hosts file, so that is asked first. Returns the addresses of both families unchecked: the address guard decides which of them
 * may be called.
 */
export function createResolver(options: ResolverOptions = {}): ResolveHost {
  const { timeout = 5_000, maxWait = 1_000, servers, hostsFile = '/etc/hosts' } = options;
  const inHostsFile = createHostsFile(hostsFile);

  return async function resolveHost(hostname) {
    const hostsFileAddresses = inHostsFile(hostname);
    if (hostsFileAddresses.length > 0) return hostsFileAddresses;

    // c-ares extends its waits: a quarter leaves time for a second try, and the timer ends both
    const resolver = new Resolver({ timeout: Math.ceil(timeout / 4), tries: 2 });
    if (servers) resolver.setServers(servers);
    const cancel = () => resolver.cancel();
    const timers = [setTimeout(cancel, timeout)];
    const lookUps = [resolver.resolve4(hostname), resolver.resolve6(hostname)];
    for (const lookUp of lookUps)
      lookUp.then(
        () => timers.push(setTimeout(cancel, maxWait)),
        () => {},
      );

    const answers = await Promise.allSettled(lookUps);
    for (const timer of timers) clearTimeout(timer);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    const failed = answers.find((answer) => answer.status === 'rejected');
    if (addresses.length === 0 && failed) throw failed.reason;
    return addresses;
  };
}
