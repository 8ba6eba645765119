import { isIP, type LookupFunction } from 'node:net';
import { outboundError } from './classify.ts';
import { isLocalhost, loopbackAddresses, type ResolveHost } from './resolver.ts';

/** Whether an address may be connected to. */
export type AllowAddress = (address: string) => boolean;

function refuse(): never {
  throw outboundError('address_not_allowed');
}

/** Throws unless connections may be made over this scheme. */
export function judgeScheme(protocol: string, allowHttp: boolean): void {
  if (protocol !== 'https:' && !allowHttp) throw outboundError('http_not_allowed');
}

/** Throws unless a literal address, as it stands in a URL, may be called; names are judged when they are resolved. */
export function judgeLiteral(hostname: string, allowAddress: AllowAddress): void {
  if (isIP(hostname) !== 0 && !allowAddress(hostname)) refuse();
}

/**
 * The addresses a name may be called at. One bad answer refuses them all: a name that mixes them is
 * an attack. Loopback names are ours to map, so there the allowed one of the two families is enough.
 */
async function judgedAddresses(hostname: string, allowAddress: AllowAddress, resolve: ResolveHost) {
  if (isLocalhost(hostname)) {
    const allowed = loopbackAddresses.filter(allowAddress);
    return allowed.length > 0 ? allowed : refuse();
  }
  const addresses = await resolve(hostname).catch((cause) => {
    // a name server that refuses the connection is no receiver that does
    throw outboundError('dns_failed', cause);
  });
  if (addresses.length === 0) throw outboundError('dns_failed');
  return addresses.every(allowAddress) ? addresses : refuse();
}

/**
 * A `lookup` for `net.connect` that answers only judged addresses, so that the address connected to is
 * the address judged and a name that flips between two look-ups gains nothing.
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
