import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { refuse } from '../errors.ts';
import { outboundError } from './outbound-error.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Networks that may be called although they are not public. */
export type Networks = readonly (readonly [base: Address, bits: number])[];

/**
 * Reads networks in CIDR notation: `10.0.0.0/8`, `fd00::/8`.
 * @throws GatewayError `invalid_options`, naming the entry
 */
export function parseNetworks(cidrs: readonly string[]): Networks {
  return cidrs.map((cidr, i) => {
    const entry = `allowPrivateNetworks[${i}]`;
    const [text = '', bits = '', ...rest] = String(cidr).split('/');
    const version = text.includes('%') ? 0 : isIP(text);
    if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (version === 4 ? 32 : 128)) {
      const wanted = 'must be a network such as 10.0.0.0/8 or fd00::/8; a single address is 10.1.2.3/32 or fd00::1/128';
      refuse('invalid_options', entry, wanted);
    }
    const base = ipaddr.parse(text);
    if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress()) {
      refuse('invalid_options', entry, 'must be written as an IPv4 network');
    }
    return [base, Number(bits)] as const;
  });
}

/** Azure's host agent: in a public range, but every virtual machine can reach it, and it reveals secrets. */
const azureHostAgent = '168.63.129.16';
/** IPv4 addresses as NAT64 shows them to hosts without IPv4 (RFC 6052). */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
/** The only block of public IPv6 addresses (IANA, IPv6 Global Unicast). */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

function isPublic(address: Address): boolean {
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast' && address.toString() !== azureHostAgent;
  if (address.match(nat64)) return isPublic(new ipaddr.IPv4(address.toByteArray().slice(12)));
  // 6to4, Teredo and the like also contain an IPv4 address; `range` denies them, and nothing public needs them any more
  return address.match(globalUnicast) && address.range() === 'unicast';
}

/**
 * Whether an address, as a resolver or a URL gives it, may be called: it is a public unicast address or in one of `networks`. An
 * IPv4-mapped IPv6 address (`::ffff:127.0.0.1`) counts as the IPv4 address that it connects to.
 */
export function isAllowedAddress(address: string, networks: Networks): boolean {
  // a zone id (`fe80::1%eth0`) names a link of this machine, never a public address
  if (isIP(address) === 0 || address.includes('%')) return false;
  // ipaddr.js confuses `::8.8.8.8` with the mapped address `::ffff:8.8.8.8`, unless the URL parser has written it in hexadecimal
  const isDotted = address.includes(':') && address.includes('.');
  const judged = ipaddr.process(isDotted ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address);
  const isListed = networks.some(
    ([base, bits]) => judged.kind() === base.kind() && judged.match([base, bits] as [ipaddr.IPv4, number]),
  );
  return isListed || isPublic(judged);
}

/** The addresses of a name in a hosts file, in the order of the file. */
function addressesIn(hostsFile: string, hostname: string): string[] {
  const canonicalName = hostname.toLowerCase().replace(/\.$/, '');
  const addresses: string[] = [];
  for (const line of hostsFile.split(/\r?\n/)) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) !== 0 && names.some((name) => name.toLowerCase() === canonicalName)) addresses.push(address);
  }
  return addresses;
}

/** The complete names that an incomplete one may stand for by a resolv.conf, whose last `search` or `domain` counts (resolv.conf(5)). */
function searchedNames(hostname: string, resolvConf: string): readonly string[] {
  let domains: readonly string[] = [];
  // a name with fewer dots may lack its domain
  let ndots = 1;
  for (const line of resolvConf.split(/\r?\n/)) {
    const [keyword = '', ...values] = line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/);
    if (keyword === 'search') domains = values;
    else if (keyword === 'domain') domains = values.slice(0, 1);
    else if (keyword === 'options') ndots = Number(/(?:^| )ndots:(\d+)(?: |$)/.exec(values.join(' '))?.[1] ?? ndots);
  }
  if (hostname.endsWith('.') || hostname.split('.').length > ndots) return [];
  return domains
    .map((domain) => domain.replace(/\.$/, ''))
    .flatMap((domain) => (domain ? `${hostname}.${domain}` : []));
}

/** What a file says; '' where there is none. Reads synchronously, because the thread pool may be full of look-ups that wait for a slow name server. */
function textOf(location: string): string {
  try {
    return readFileSync(location, 'utf8');
  } catch {
    return '';
  }
}

/** Resolves with all addresses of a name, or rejects with the resolver's `code`. */
export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

/** The addresses of `localhost` and `*.localhost`: always this machine, whatever a resolver says (RFC 6761, section 6.3). */
const loopbackAddresses: readonly string[] = ['127.0.0.1', '::1'];

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
  /** Names the search domains. @default '/etc/resolv.conf' */
  readonly resolvConf?: string;
}

/** What a name server answers that knows no addresses of a name. */
const unknownName: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA']);

/**
 * Resolves names with c-ares, which does not use the thread pool: a slow name server delays only its own names. c-ares reads no
 * hosts file, so that is asked first; and Node's resolver appends no search domains, by which a cluster's services have short names, so they
 * are tried for a name that is not known. Returns the addresses of both families unchecked: the address guard decides which of them
 * may be called.
 */
export function createResolver(options: ResolverOptions = {}): ResolveHost {
  const {
    timeout = 5_000,
    maxWait = 1_000,
    servers,
    hostsFile = '/etc/hosts',
    resolvConf = '/etc/resolv.conf',
  } = options;

  /** @param time milliseconds for both families, all tries included */
  async function ask(hostname: string, time: number): Promise<readonly string[]> {
    // c-ares extends its waits: a quarter leaves time for a second try, and the timer ends both
    const resolver = new Resolver({ timeout: Math.ceil(time / 4), tries: 2 });
    if (servers) resolver.setServers(servers);
    const cancel = () => resolver.cancel();
    const timers = [setTimeout(cancel, time)];
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
  }

  return async function resolveHost(hostname) {
    const hostsFileAddresses = addressesIn(textOf(hostsFile), hostname);
    if (hostsFileAddresses.length > 0) return hostsFileAddresses;

    const startedAt = performance.now();
    try {
      return await ask(hostname, timeout);
    } catch (error) {
      // of the name as it stands, whatever comes of the others
      if (!unknownName.has((error as NodeJS.ErrnoException).code)) throw error;
      for (const name of searchedNames(hostname, textOf(resolvConf))) {
        const remaining = timeout - (performance.now() - startedAt);
        const addresses = remaining > 0 ? await ask(name, remaining).catch(() => []) : [];
        if (addresses.length > 0) return addresses;
      }
      throw error;
    }
  };
}

/** Whether an address may be connected to. */
export type AllowAddress = (address: string) => boolean;

/** The addresses of a host that nobody need resolve: an address itself, and those of `localhost`. */
export function knownAddresses(hostname: string): readonly string[] {
  if (isIP(hostname) !== 0) return [hostname];
  return /(^|\.)localhost\.?$/i.test(hostname) ? loopbackAddresses : [];
}

/**
 * The addresses at which a name may be called. One forbidden address refuses the name: a name that mixes both kinds is an attack.
 * The gateway itself maps loopback names, so for these one allowed family is enough.
 */
async function judgedAddresses(hostname: string, allowAddress: AllowAddress, resolve: ResolveHost) {
  const known = knownAddresses(hostname);
  if (known.length > 0) {
    const allowed = known.filter(allowAddress);
    if (allowed.length > 0) return allowed;
    throw outboundError('address_not_allowed');
  }
  const addresses = await resolve(hostname).catch((cause) => {
    // if a name server refuses the connection, the code must not say that the receiver does
    throw outboundError('dns_failed', cause);
  });
  if (addresses.length === 0) throw outboundError('dns_failed');
  if (!addresses.every(allowAddress)) throw outboundError('address_not_allowed');
  return addresses;
}

/**
 * A `lookup` for `net.connect` that returns only checked addresses. The connection goes to the address that was checked, so a name
 * that changes its address between two look-ups gains nothing.
 */
export function guardedLookup(allowAddress: AllowAddress, resolve: ResolveHost): LookupFunction {
  return function lookup(hostname, options, callback) {
    judgedAddresses(hostname, allowAddress, resolve).then(
      (addresses) => {
        const answers = addresses.map((address) => ({ address, family: isIP(address) }));
        const [first] = answers;
        if (options.all) callback(null, answers);
        else callback(null, first?.address ?? '', first?.family);
      },
      (error) => callback(error, []),
    );
  };
}
