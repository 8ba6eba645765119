import { expect } from 'chai';
import { forbiddenHosts } from '../../support/forbidden-hosts.ts';
import { createAuthority } from '../../support/servers/certificates.ts';
import { type Answer, silence, startNameServer } from '../../support/servers/name-server.ts';
import { startRawReceiver } from '../../support/servers/raw-receiver.ts';
import { type DeliveryPath, openDeliveryPath, type PathChoices } from './delivery-path.ts';

describe('The guard of deliveries', () => {
  const name = 'receiver.example';
  const authority = createAuthority();
  let names: Awaited<ReturnType<typeof startNameServer>>;
  let receiver: Awaited<ReturnType<typeof startRawReceiver>>;
  let path: DeliveryPath;

  before(async () => {
    names = await startNameServer(() => ({}));
  });
  after(() => names.stop());
  afterEach(async () => {
    await path.close();
    await receiver.stop();
  });

  /** A receiver on loopback, over `scheme`, and the way to it. */
  async function open(scheme: string, choices: PathChoices = {}): Promise<void> {
    const secure = scheme === 'https';
    receiver = await startRawReceiver(
      (socket) => void socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\n\r\n')),
      secure ? authority.issue({ name }) : undefined,
    );
    path = openDeliveryPath({ networks: [], nameServer: names.address, ca: authority.cert, ...choices });
  }

  for (const scheme of ['http', 'https']) {
    describe(`over ${scheme}`, () => {
      for (const host of forbiddenHosts) {
        it(`does not connect to ${host}`, async () => {
          await open(scheme);
          expect((await path.post(`${scheme}://${host}:${receiver.port}/`)).code).to.equal('address_not_allowed');
          expect(receiver.connections).to.equal(0);
        });
      }

      const public_ = '93.184.216.34';
      const leading: [what: string, Answer][] = [
        ['to loopback', { addresses: ['127.0.0.1'] }],
        ['to loopback, by IPv6', { addresses: ['::1'] }],
        ['to loopback, IPv4 in IPv6 dress', { addresses: ['::ffff:7f00:1'] }],
        ['to loopback, by NAT64', { addresses: ['64:ff9b::7f00:1'] }],
        ['to nowhere', { addresses: ['0.0.0.0'] }],
        ['to cloud metadata', { addresses: ['169.254.169.254'] }],
        ['to loopback through an alias', { alias: 'other.example', addresses: ['127.0.0.1'] }],
        ['to a public and a private address', { addresses: [public_, '127.0.0.1'] }],
        ['to a public address and loopback by IPv6', { addresses: [public_, '::1'] }],
        [
          'to many public addresses and one private',
          { addresses: [...Array.from({ length: 20 }, (_, i) => `93.184.216.${i + 1}`), '10.0.0.1'] },
        ],
        ['to loopback in an answer that is truncated', { addresses: ['127.0.0.1'], truncated: true }],
      ];
      for (const [what, answer] of leading) {
        it(`does not connect when a name resolves ${what}`, async () => {
          names.answers(() => answer);
          await open(scheme);
          expect((await path.post(`${scheme}://${name}:${receiver.port}/`)).code).to.equal('address_not_allowed');
          expect(receiver.connections).to.equal(0);
        });
      }

      it('checks a name at each connection, so that a changed address is refused', async () => {
        await open(scheme, { networks: ['127.0.0.1/32'] });
        for (const [address, code] of [
          ['127.0.0.1', 'delivered'],
          ['127.0.0.2', 'address_not_allowed'],
          ['127.0.0.1', 'delivered'],
        ] as const) {
          names.answers(() => ({ addresses: [address] }));
          expect((await path.post(`${scheme}://${name}:${receiver.port}/`)).code).to.equal(code);
        }
        expect(receiver.connections).to.equal(2);
      });

      it('connects to the checked address, even if the name resolves to another by then', async () => {
        let asked = 0;
        await open(scheme, { networks: ['127.0.0.1/32'] });
        names.answers((_name, family) => {
          if (family === 6) return {};
          asked += 1;
          return { addresses: [asked === 1 ? '127.0.0.1' : '10.0.0.1'] };
        });
        expect((await path.post(`${scheme}://${name}:${receiver.port}/`)).code).to.equal('delivered');
        expect(asked).to.equal(1);
      });
    });
  }

  it('allows exactly the addresses in allowPrivateNetworks, in every spelling', async () => {
    await open('http', { networks: ['127.0.0.1/32'] });
    const code = async (host: string) => (await path.post(`http://${host}:${receiver.port}/`)).code;
    for (const host of ['127.0.0.1', '2130706433', '0x7f.1', 'localhost', 'a.localhost']) {
      expect(await code(host), host).to.equal('delivered');
    }
    for (const host of ['127.0.0.2', '[::1]', '10.0.0.1', '0.0.0.0', '169.254.169.254', '[::127.0.0.1]']) {
      expect(await code(host), host).to.equal('address_not_allowed');
    }
    names.answers(() => ({ addresses: ['127.0.0.1', '10.0.0.1'] }));
    expect(await code(name), 'a name that leads outside too').to.equal('address_not_allowed');
    names.answers(() => ({ addresses: ['127.0.0.1'] }));
    expect(await code(name), 'a name that leads there').to.equal('delivered');
  });

  const failing: [what: string, Answer | 'silence' | 'absence'][] = [
    ['unknown', { code: 3 }],
    ['one without addresses', {}],
    ['an alias of localhost, which has no address there', { alias: 'localhost' }],
    ['one whose server fails', { code: 2 }],
    ['one whose server is silent', 'silence'],
    ['one whose server is not there', 'absence'],
  ];
  for (const [what, answer] of failing) {
    it(`reports dns_failed for a name that is ${what}, before the deadline`, async () => {
      if (typeof answer === 'object') names.answers(() => answer);
      else names.answers(silence);
      await open('http', answer === 'absence' ? { nameServer: '127.0.0.1:1' } : {});
      const { code, durationMs } = await path.post(`http://${name}:${receiver.port}/`);
      expect(code).to.equal('dns_failed');
      expect(durationMs).to.be.below(4_000);
    });
  }
});
