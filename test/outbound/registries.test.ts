import { BlockList, isIPv4 } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { isAllowedAddress } from '../../src/outbound/addresses.ts';

/** IANA's special-purpose registry of IPv4, and what lies beside it: multicast, reserved, Azure's host agent. */
const special4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
/** The same of IPv6, inside the one block that public addresses are given out from; nothing outside it is public. */
const special6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20'];
const globalUnicast = '2000::/3';

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [base = '', bits] = network.split('/');
    list.addSubnet(base, Number(bits), isIPv4(base) ? 'ipv4' : 'ipv6');
  }
  return list;
}

/** A second opinion, by Node's own list of blocks instead of the library that the product asks. */
const isSpecial = listOf([...special4, ...special6]);
const isGlobal = listOf([globalUnicast]);
function isPublic(address: string): boolean {
  if (isIPv4(address)) return !isSpecial.check(address, 'ipv4');
  return isGlobal.check(address, 'ipv6') && !isSpecial.check(address, 'ipv6');
}

const toText4 = (value: bigint) => [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join('.');
const toText6 = (value: bigint) =>
  value
    .toString(16)
    .padStart(32, '0')
    .replace(/.{4}(?!$)/g, '$&:');

function toValue(address: string): bigint {
  if (isIPv4(address)) return address.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);
  const groups = address.split('::')[0]?.split(':') ?? [];
  return groups.reduce((value, group, i) => value | (BigInt(`0x${group}`) << BigInt(112 - 16 * i)), 0n);
}

/** The first and the last address of a network, and their neighbours outside it. */
function edges(network: string): string[] {
  const [base = '', bits = ''] = network.split('/');
  const [width, toText] = isIPv4(base) ? [32n, toText4] : [128n, toText6];
  const first = toValue(base);
  const last = first + (1n << (width - BigInt(bits))) - 1n;
  return [first - 1n, first, last, last + 1n].filter((value) => value >= 0n && value >> width === 0n).map(toText);
}

describe('The check for public addresses', () => {
  for (const network of [...special4, ...special6, globalUnicast]) {
    it(`agrees with the IANA registries at the edges of ${network}`, () => {
      for (const address of edges(network)) {
        expect(isAllowedAddress(address, []), address).to.equal(isPublic(address));
      }
    });
  }

  const anyIPv4 = fc.bigInt(0n, (1n << 32n) - 1n).map(toText4);
  const anyIPv6 = fc.oneof(
    fc.bigInt(0n, (1n << 128n) - 1n),
    fc.bigInt(0x2000n << 112n, 0x2002n << 112n),
    fc.bigInt(0n, (1n << 112n) - 1n),
  );

  it('agrees with the registries on any IPv4 address, also inside an IPv6 address', () => {
    fc.assert(
      fc.property(anyIPv4, (address) => {
        const expected = isPublic(address);
        expect(isAllowedAddress(address, []), address).to.equal(expected);
        expect(isAllowedAddress(`::ffff:${address}`, []), `::ffff:${address}`).to.equal(expected);
        expect(isAllowedAddress(`64:ff9b::${address}`, []), `64:ff9b::${address}`).to.equal(expected);
        expect(isAllowedAddress(`::${address}`, []), `::${address}`).to.equal(false);
      }),
      { numRuns: 2_000 },
    );
  });

  it('agrees with the registries on any IPv6 address', () => {
    fc.assert(
      fc.property(anyIPv6.map(toText6), (address) => {
        const mapped = address.startsWith('0000:0000:0000:0000:0000:ffff:');
        const nat64 = address.startsWith('0064:ff9b:0000:0000:0000:0000:');
        fc.pre(!mapped && !nat64);
        expect(isAllowedAddress(address, []), address).to.equal(isPublic(address));
      }),
      { numRuns: 5_000 },
    );
  });
});
