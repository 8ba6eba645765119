import { isIP, type LookupFunction } from 'node:net';
import { outboundError } from './classify.ts';
import { isLocalhost, loopbackAddresses, type ResolveHost } from './resolver.ts';

/** Whether an address may be connected to. */
export type AllowAddress = (address: string) => boolean;

function refuseAddress(): never {
  throw outboundError('address_not_allowed');
}

/** @throws OutboundError unless connections may use this scheme */
export function judgeScheme(protocol: string, allowHttp: boolean): void {
  if (protocol !== 'https:' && !allowHttp) throw outboundError('http_not_allowed');
}

/** @throws OutboundError if the host of a URL is an address that may not be called. Names are checked when they are resolved. */
export function judgeLiteral(hostname: string, allowAddress: AllowAddress): void {
  if (isIP(hostname) !== 0 && !allowAddress(hostname)) refuseAddress();
}

/**
 * The addresses at which a name may be called. One forbidden address refuses the name: a name that mixes both kinds is an attack.
 * The gateway itself maps loopback names, so for these one allowed family is enough.
 */
async function judgedAddresses(hostname: string, allowAddress: AllowAddress, resolve: ResolveHost) {
  if (isLocalhost(hostname)) {
    const allowed = loopbackAddresses.filter(allowAddress);
    return allowed.length > 0 ? allowed : refuseAddress();
  }
  const addresses = await resolve(hostname).catch((cause) => {
    // if a name server refuses the connection, the code must not say that the receiver does
    throw outboundError('dns_failed', cause);
  });
  if (addresses.length === 0) throw outboundError('dns_failed');
  return addresses.every(allowAddress) ? addresses : refuseAddress();
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
