import dns from 'node:dns';

/** Loaded before anything else: after a message of the suite that says so, this process finds no address for any name. */
let areGone = false;
const { lookup } = dns;

function lookupUnlessGone(name: string, ...rest: readonly unknown[]): void {
  if (!areGone) {
    Reflect.apply(lookup, dns, [name, ...rest]);
    return;
  }
  const details = { code: 'ENOTFOUND', errno: -3008, syscall: 'getaddrinfo', hostname: name };
  const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), details);
  process.nextTick(rest.at(-1) as (error: Error) => void, error);
}

Object.defineProperties(lookupUnlessGone, Object.getOwnPropertyDescriptors(lookup));
dns.lookup = lookupUnlessGone as typeof lookup;

process.on('message', ({ namesAreGone }: { namesAreGone?: boolean }) => {
  areGone = namesAreGone ?? areGone;
});
