import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createKeyCache, type KeyRecord } from '../../src/keys/cache.ts';

const record: KeyRecord = { digest: Buffer.alloc(32), principal: { userId: 'usr_1' }, good: true };

function watchedCache() {
  const reads: string[] = [];
  const read = async (id: string) => {
    reads.push(id);
    return record;
  };
  return { cache: createKeyCache({ read, ttl: 500, capacity: 10 }), reads };
}

describe('recently used keys', () => {
  it('share one look-up while it is under way', async () => {
    const { cache, reads } = watchedCache();
    const found = await Promise.all(Array.from({ length: 50 }, () => cache.find('a')));
    expect(reads).to.deep.equal(['a']);
    for (const known of found) expect(known?.record).to.equal(record);
  });

  it('are read again when nobody kept them', async () => {
    const { cache, reads } = watchedCache();
    await cache.find('a');
    await cache.find('a');
    expect(reads).to.deep.equal(['a', 'a']);
  });

  it('are believed no longer than the ttl, counted from the start of the look-up', async () => {
    let reads = 0;
    const read = async () => {
      reads += 1;
      await sleep(30);
      return record;
    };
    const cache = createKeyCache({ read, ttl: 40, capacity: 10 });
    const first = await cache.find('a');
    if (first) cache.keep('a', first);
    await sleep(15);
    await cache.find('a');
    expect(reads).to.equal(2);
  });

  it('do not wait for a look-up that hangs', async () => {
    const answers = [new Promise<null>(() => {}), Promise.resolve(record)];
    const cache = createKeyCache({ read: () => answers.shift() ?? Promise.resolve(null), ttl: 20, capacity: 10 });
    void cache.find('a');
    await sleep(30);
    expect((await cache.find('a'))?.record).to.equal(record);
  });

  it('are never replaced by what was read earlier', async () => {
    const cache = createKeyCache({ read: async () => null, ttl: 500, capacity: 10 });
    const now = performance.now();
    cache.keep('a', { record: { ...record, good: false }, since: now });
    cache.keep('a', { record, since: now - 1 });
    expect((await cache.find('a'))?.record.good).to.equal(false);
  });

  it('are bounded: the oldest makes room', async () => {
    const cache = createKeyCache({ read: async () => null, ttl: 500, capacity: 2 });
    for (const id of ['a', 'b', 'c']) cache.keep(id, { record, since: performance.now() });
    expect(await cache.find('a')).to.equal(null);
    expect(await cache.find('b')).to.not.equal(null);
    expect(await cache.find('c')).to.not.equal(null);
  });

  it('pass a failed look-up on to all who wait, and try again for the next', async () => {
    const answers = [Promise.reject(new Error('down')), Promise.resolve(record)];
    const cache = createKeyCache({ read: () => answers.shift() ?? Promise.resolve(null), ttl: 500, capacity: 10 });
    const waiting = await Promise.allSettled([cache.find('a'), cache.find('a')]);
    expect(waiting.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
    expect((await cache.find('a'))?.record).to.equal(record);
  });
});
