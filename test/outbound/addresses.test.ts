import { pbkdf2 } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { BlockList, isIPv4 } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { GatewayError } from '../../src/index.ts';
import { createResolver, isAllowedAddress, parseNetworks, type ResolverOptions } from '../../src/outbound/addresses.ts';
import { classify } from '../../src/outbound/outbound-error.ts';
import { silence, startNameServer } from '../support/servers/name-server.ts';

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

describe('The resolver', () => {
  let names: Awaited<ReturnType<typeof startNameServer>>;
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hosts-'));
  });
  after(() => rm(folder, { recursive: true }));
  beforeEach(async () => {
    names = await startNameServer(() => ({}));
  });
  afterEach(() => names.stop());

  const resolver = (options: ResolverOptions = {}) =>
    createResolver({
      // longer than any pause of a busy machine, where nothing waits for it
      timeout: 10_000,
      maxWait: 60,
      servers: [names.address],
      hostsFile: join(folder, 'none'),
      resolvConf: join(folder, 'none'),
      ...options,
    });
  const failure = (promise: Promise<unknown>): Promise<string> =>
    promise.then(
      () => expect.fail('should have failed'),
      (error) => classify(error).code,
    );
  async function timed<T>(promise: Promise<T>): Promise<[T, number]> {
    const started = performance.now();
    return [await promise, performance.now() - started];
  }

  describe('of a hosts file', () => {
    const text =
      '# comment\n127.0.0.1\tlocalhost\n10.0.0.5  db.internal DB2.internal # the database\r\nfd00::5 db.internal\n';
    let resolve: ReturnType<typeof createResolver>;
    before(async () => {
      await writeFile(join(folder, 'hosts'), text);
    });
    beforeEach(() => {
      // the name server knows no name
      names.answers(() => ({ code: 3 }));
      resolve = resolver({ hostsFile: join(folder, 'hosts') });
    });

    it('gives every address of a name, in upper or lower case', async () => {
      expect(await resolve('DB.internal')).to.deep.equal(['10.0.0.5', 'fd00::5']);
      expect(await resolve('db2.internal')).to.deep.equal(['10.0.0.5']);
    });

    for (const name of ['comment', 'the', 'internal']) {
      it(`gives no address for a word of a comment or a part of a name: ${name}`, async () => {
        expect(await failure(resolve(name))).to.equal('dns_failed');
      });
    }
  });

  it('returns the IPv4 and IPv6 addresses of a name', async () => {
    names.answers(() => ({ addresses: ['93.184.216.34', '2606:4700::1111', '10.0.0.1'] }));
    expect(await resolver()('both.example')).to.have.members(['93.184.216.34', '10.0.0.1', '2606:4700::1111']);
  });

  it('returns every address of a long answer', async () => {
    const addresses = Array.from({ length: 25 }, (_, i) => `93.184.216.${i}`);
    names.answers(() => ({ addresses }));
    expect(await resolver()('many.example')).to.have.members(addresses);
  });

  it('follows an alias to its addresses', async () => {
    names.answers(() => ({ alias: 'other.example', addresses: ['127.0.0.1'] }));
    expect(await resolver()('alias.example')).to.deep.equal(['127.0.0.1']);
  });

  it('asks again over TCP where an answer is truncated', async () => {
    names.answers(() => ({ addresses: ['93.184.216.34'], truncated: true }));
    expect(await resolver()('long.example')).to.deep.equal(['93.184.216.34']);
  });

  it('asks again where a packet is lost', async () => {
    let asked = 0;
    names.answers((_name, family) => {
      if (family === 6) return {};
      asked += 1;
      return asked === 1 ? new Promise(() => {}) : { addresses: ['93.184.216.34'] };
    });
    expect(await resolver({ timeout: 2_000 })('lossy.example')).to.deep.equal(['93.184.216.34']);
  });

  for (const [what, code] of [
    ['an unknown name', 3],
    ['a server that fails', 2],
    ['a server that refuses', 5],
    ['a name without addresses', 0],
  ] as const) {
    it(`reports dns_failed for ${what}`, async () => {
      names.answers(() => ({ code }));
      expect(await failure(resolver()('none.example'))).to.equal('dns_failed');
    });
  }

  it('reports dns_failed when the server has not answered within the timeout', async () => {
    names.answers(silence);
    const [code, took] = await timed(failure(resolver({ timeout: 400 })('slow.example')));
    expect(code).to.equal('dns_failed');
    expect(took).to.be.within(300, 8_000);
  });

  it('returns the addresses of one family where the other fails', async () => {
    names.answers((_name, family) => (family === 6 ? { code: 2 } : { addresses: ['93.184.216.34'] }));
    expect(await resolver()('half.example')).to.deep.equal(['93.184.216.34']);
  });

  it('waits only briefly for a family that does not answer, not for the whole timeout', async () => {
    names.answers((_name, family) => (family === 4 ? new Promise(() => {}) : { addresses: ['2606:4700::1111'] }));
    const [addresses, took] = await timed(resolver()('half.example'));
    expect(addresses).to.have.length(1);
    expect(took).to.be.within(50, 3_000);
  });

  it('answers other names at once while a hundred wait for a slow server', async () => {
    names.answers((name) => (name.startsWith('slow') ? new Promise(() => {}) : { addresses: ['93.184.216.34'] }));
    const resolve = resolver({ timeout: 2_000 });
    const slow = Promise.all(Array.from({ length: 100 }, (_, i) => failure(resolve(`slow${i}.example`))));
    const [addresses, took] = await timed(resolve('quick.example'));
    expect(addresses).to.deep.equal(['93.184.216.34']);
    expect(took).to.be.below(1_500);
    expect(new Set(await slow)).to.deep.equal(new Set(['dns_failed']));
  });

  it('needs no free thread of the thread pool', async () => {
    await writeFile(join(folder, 'hosts'), '10.0.0.5 db.internal\n');
    names.answers(() => ({ addresses: ['93.184.216.34'] }));
    let finished = 0;
    const busy = Array.from(
      { length: 5 },
      () =>
        new Promise<void>((resolve) => {
          pbkdf2('a', 'b', 1_000_000, 64, 'sha512', () => {
            finished += 1;
            resolve();
          });
        }),
    );
    const resolve = resolver({ hostsFile: join(folder, 'hosts') });
    expect(await resolve('db.internal')).to.deep.equal(['10.0.0.5']);
    expect(await resolve('quick.example')).to.deep.equal(['93.184.216.34']);
    expect(finished).to.equal(0);
    await Promise.all(busy);
  });

  describe('with a hosts file', () => {
    it('takes the addresses from the file, and asks no name server for them', async () => {
      const hostsFile = join(folder, 'first');
      await writeFile(hostsFile, '10.0.0.5 db.internal\nfd00::5 db.internal\nnonsense db.internal\n');
      const resolve = resolver({ hostsFile });
      expect(await resolve('DB.internal')).to.deep.equal(['10.0.0.5', 'fd00::5']);
      expect(await resolve('db.internal.')).to.deep.equal(['10.0.0.5', 'fd00::5']);
      expect(names.asked).to.deep.equal([]);
    });

    it('reads the file again when it has changed', async () => {
      const hostsFile = join(folder, 'changing');
      await writeFile(hostsFile, '10.0.0.5 db.internal\n');
      const resolve = resolver({ hostsFile });
      expect(await resolve('db.internal')).to.deep.equal(['10.0.0.5']);
      await writeFile(hostsFile, '10.0.0.66 db.internal\n');
      expect(await resolve('db.internal')).to.deep.equal(['10.0.0.66']);
    });

    it('asks the name server where the file is missing or does not have the name', async () => {
      names.answers(() => ({ addresses: ['93.184.216.34'] }));
      const hostsFile = join(folder, 'silent');
      await writeFile(hostsFile, '10.0.0.5 other.internal\n');
      for (const file of [hostsFile, join(folder, 'missing')]) {
        expect(await resolver({ hostsFile: file })('db.internal')).to.deep.equal(['93.184.216.34']);
      }
    });
  });

  describe('with search domains', () => {
    /** As Kubernetes writes it. */
    const inCluster =
      'nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local.\noptions ndots:5 edns0\n';
    const unknown = { code: 3 };

    async function withConf(text: string) {
      const resolvConf = join(folder, 'resolv.conf');
      await writeFile(resolvConf, text);
      return resolver({ resolvConf });
    }

    it('finds the services of a cluster by their short names', async () => {
      const resolve = await withConf(inCluster);
      names.answers((name) => (name === 'orders.shop.svc.cluster.local' ? { addresses: ['10.0.0.7'] } : unknown));
      for (const name of ['orders', 'orders.shop', 'orders.shop.svc', 'orders.shop.svc.cluster.local']) {
        expect(await resolve(name), name).to.deep.equal(['10.0.0.7']);
      }
    });

    it('asks for no other name where the name is known as it stands', async () => {
      const resolve = await withConf(inCluster);
      names.answers(() => ({ addresses: ['93.184.216.34'] }));
      expect(await resolve('receiver')).to.deep.equal(['93.184.216.34']);
      expect(new Set(names.asked)).to.deep.equal(new Set(['receiver']));
    });

    for (const [what, conf, name, answer] of [
      ['is complete', inCluster, 'orders.shop.', unknown],
      ['has as many dots as ndots', inCluster, 'a.b.c.d.e.f', unknown],
      ['has a dot, and the file says nothing of ndots', 'search cluster.local\n', 'orders.shop', unknown],
      ['is refused', inCluster, 'orders.shop', { code: 5 }],
    ] as const) {
      it(`asks for no other name where the name ${what}`, async () => {
        const resolve = await withConf(conf);
        names.answers((asked) => (asked.endsWith('.local') ? { addresses: ['10.0.0.7'] } : answer));
        expect(await failure(resolve(name))).to.equal('dns_failed');
        expect(names.asked.filter((asked) => asked.endsWith('.local'))).to.deep.equal([]);
      });
    }

    it('reports dns_failed when the time is over before it has asked for all of them', async () => {
      const resolvConf = join(folder, 'slow');
      await writeFile(resolvConf, inCluster);
      names.answers((name) => (name === 'orders' ? unknown : new Promise(() => {})));
      const [code, took] = await timed(failure(resolver({ resolvConf, timeout: 400 })('orders')));
      expect(code).to.equal('dns_failed');
      expect(took).to.be.below(8_000);
    });
  });
});
