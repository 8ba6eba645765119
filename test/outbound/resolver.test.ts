import { pbkdf2 } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createResolver, type ResolverOptions } from '../../src/outbound/addresses.ts';
import { classify } from '../../src/outbound/outbound-error.ts';
import { silence, startNameServer } from '../support/servers/name-server.ts';

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
