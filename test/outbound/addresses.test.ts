import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import { isAllowedAddress, parseNetworks } from '../../src/outbound/addresses.ts';

const denied = {
  'this machine': ['127.0.0.1', '127.255.255.254', '::1', '0.0.0.0', '0.1.2.3', '::'],
  'private networks': ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fd00::1', 'fc00::1', 'fec0::1'],
  'cloud metadata and host agents': ['169.254.169.254', '168.63.129.16', '100.100.100.200', 'fd00:ec2::254'],
  'link-local and shared addresses': ['169.254.0.1', '100.64.0.1', '100.127.255.255', 'fe80::1'],
  'multicast and broadcast addresses': ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1'],
  'reserved and documentation addresses': [
    '192.0.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '192.88.99.1',
    '240.0.0.1',
    '2001:db8::1',
    '3fff::1',
    '100::1',
    '5f00::1',
    '4000::1',
    'e000::1',
  ],
  'IPv4 addresses inside IPv6': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::ffff:169.254.169.254',
    '::ffff:168.63.129.16',
    '::127.0.0.1',
    '::8.8.8.8',
    '::808:808',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::168.63.129.16',
    '64:ff9b:1::7f00:1',
    '2002:7f00:1::',
    '2002:808:808::',
    '2001:0:808:808::1',
  ],
  'anything but a plain address': [
    '',
    'localhost',
    'example.com',
    '2130706433',
    '0x7f.1',
    '127.1',
    '[::1]',
    'fe80::1%eth0',
  ],
};

const allowed = [
  '1.1.1.1',
  '8.8.8.8',
  '93.184.216.34',
  '168.63.129.15',
  '172.32.0.1',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
];

function refusal(cidrs: readonly string[]): GatewayError {
  try {
    parseNetworks(cidrs);
  } catch (error) {
    if (error instanceof GatewayError) return error;
  }
  throw new Error('the networks were taken');
}

describe('the check of addresses that may be called', () => {
  for (const [what, addresses] of Object.entries(denied)) {
    for (const address of addresses) {
      it(`denies ${what}: '${address}'`, () => {
        expect(isAllowedAddress(address, [])).to.equal(false);
      });
    }
  }

  for (const address of allowed) {
    it(`allows the public address ${address}`, () => {
      expect(isAllowedAddress(address, [])).to.equal(true);
    });
  }

  it('allows the private networks that are opened, and no others', () => {
    const networks = parseNetworks(['10.1.0.0/16', 'fd00:1::/32', '168.63.129.16/32']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd00:1::5', '168.63.129.16']) {
      expect(isAllowedAddress(address, networks), address).to.equal(true);
    }
    for (const address of ['10.2.0.1', '127.0.0.1', 'fd00:2::1', '::1', '64:ff9b::10.1.2.3', '::10.1.2.3']) {
      expect(isAllowedAddress(address, networks), address).to.equal(false);
    }
  });

  it('allows every IPv4 address with 0.0.0.0/0, and no IPv6 address', () => {
    const networks = parseNetworks(['0.0.0.0/0']);
    expect(isAllowedAddress('127.0.0.1', networks)).to.equal(true);
    expect(isAllowedAddress('::1', networks)).to.equal(false);
  });

  it('ignores the host bits of a network', () => {
    expect(isAllowedAddress('127.9.9.9', parseNetworks(['127.0.0.1/8']))).to.equal(true);
  });

  for (const wrong of [
    '10.0.0.0',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '10.0.0.0/8 ',
    '10/8',
    '0x0a.0.0.0/8',
    'fd00::/129',
    'fe80::%eth0/10',
    'localhost/8',
    '::ffff:10.0.0.0/104',
    '',
    null as unknown as string,
    { $ne: null } as unknown as string,
  ]) {
    it(`refuses the network ${JSON.stringify(wrong)} and names its place in the list`, () => {
      const error = refusal(['127.0.0.0/8', wrong]);
      expect(error.code).to.equal('invalid_options');
      expect(error.param).to.equal('allowPrivateNetworks[1]');
      expect(error.message).to.match(/must be/);
    });
  }
});
