import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { refuse } from '../errors.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Networks that may be called although they are not public. */
export type Networks = readonly (readonly [base: Address, bits: number])[];

function refuseNetwork(index: number, reason: string): never {
  refuse('invalid_options', `allowPrivateNetworks[${index}]`, reason);
}

/**
 * Reads networks in CIDR notation: `10.0.0.0/8`, `fd00::/8`.
 * @throws GatewayError `invalid_options`, naming the entry
 */
export function parseNetworks(cidrs: readonly string[]): Networks {
  return cidrs.map((cidr, i) => {
    const [text = '', bits = '', ...rest] = String(cidr).split('/');
    const version = text.includes('%') ? 0 : isIP(text);
    if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (version === 4 ? 32 : 128)) {
      refuseNetwork(
        i,
        'must be a network such as 10.0.0.0/8 or fd00::/8; a single address is 10.1.2.3/32 or fd00::1/128',
      );
    }
    const base = ipaddr.parse(text);
    if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress())
      refuseNetwork(i, 'must be written as an IPv4 network');
    return [base, Number(bits)] as const;
  });
}

function contains([base, bits]: Networks[number], address: Address): boolean {
  return address.kind() === base.kind() && address.match([base, bits] as [ipaddr.IPv4, number]);
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

/** ipaddr.js confuses `::8.8.8.8` with the mapped address `::ffff:8.8.8.8`, unless the URL parser has written it in hexadecimal. */
function parse(address: string): Address {
  const dotted = address.includes(':') && address.includes('.');
  return ipaddr.process(dotted ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address);
}

/**
 * Whether an address, as a resolver or a URL gives it, may be called: it is a public unicast address or in one of `networks`. An
 * IPv4-mapped IPv6 address (`::ffff:127.0.0.1`) counts as the IPv4 address that it connects to.
 */
export function isAllowedAddress(address: string, networks: Networks): boolean {
  // a zone id (`fe80::1%eth0`) names a link of this machine, never a public address
  if (isIP(address) === 0 || address.includes('%')) return false;
  const judged = parse(address);
  return networks.some((network) => contains(network, judged)) || isPublic(judged);
}
