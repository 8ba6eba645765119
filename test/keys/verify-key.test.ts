import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createKeyCache, digestOf, type KeyRecord, keyIdIn, newKeyText } from '../../src/keys/verify-key.ts';
import { newId } from '../support/ids.ts';
import { eventually } from '../support/until.ts';

describe('the text of an API key', () => {
  const id = newId('key', Date.now());
  const text = newKeyText(id);

  it('is emg_, the id without its prefix, and 256 random bits', () => {
    expect(text).to.match(/^emg_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/);
    expect(text.slice(4, 30)).to.equal(id.slice(4));
    expect(Buffer.from(text.slice(31), 'base64url')).to.have.length(32);
    expect(newKeyText(id)).to.not.equal(text);
  });

  it('carries its id', () => {
    expect(keyIdIn(text)).to.equal(id);
  });

  it('has the SHA-256 of the whole text as its digest', () => {
    expect(digestOf(text).toString('hex')).to.equal(createHash('sha256').update(text).digest('hex'));
  });

  const malformed: [what: string, token: unknown][] = [
    ['no characters', ''],
    ['another prefix', `sk_${text.slice(3)}`],
    ['a missing character', text.slice(0, -1)],
    ['a character too many', `${text}A`],
    ['a line break at the end', `${text.slice(0, -1)}\n`],
    ['another separator', `${text.slice(0, 30)}-${text.slice(31)}`],
    ['capitals in the id', text.slice(0, 4) + text.slice(4, 30).toUpperCase() + text.slice(30)],
    ['characters of plain base64', `${text.slice(0, -2)}+/`],
    ['a NUL', `${text.slice(0, -1)}\0`],
    ['half a surrogate pair', `${text.slice(0, -1)}\ud800`],
    ['a query operator', { $ne: null }],
    ['a list', [text]],
    ['no value', undefined],
  ];
  for (const [what, token] of malformed) {
    it(`is refused with ${what}`, () => {
      expect(keyIdIn(token as string)).to.equal(null);
    });
  }
});

const record: KeyRecord = { digest: Buffer.alloc(32), principal: { userId: 'usr_1' }, good: true };

function watchedCache() {
  const reads: string[] = [];
  const read = async (id: string) => {
    reads.push(id);
    return record;
  };
  return { cache: createKeyCache({ read, ttl: 60_000, capacity: 10 }), reads };
}

describe('recently used keys', () => {
  it('share one look-up while it is under way', async () => {
    const { cache, reads } = watchedCache();
    const found = await Promise.all(Array.from({ length: 50 }, () => cache.find('a')));
    expect(reads).to.deep.equal(['a']);
    for (const known of found) expect(known?.record).to.equal(record);
  });

  it('are read again when they were not kept', async () => {
    const { cache, reads } = watchedCache();
    await cache.find('a');
    await cache.find('a');
    expect(reads).to.deep.equal(['a', 'a']);
  });

  it('are used no longer than the ttl, counted from the start of the look-up', async () => {
    let reads = 0;
    const read = async () => {
      reads += 1;
      // the look-up is slow on purpose
      await sleep(30);
      return record;
    };
    const cache = createKeyCache({ read, ttl: 40, capacity: 10 });
    const first = await cache.find('a');
    if (first) cache.keep('a', first);
    // measures time: with the look-up, longer than the ttl
    await sleep(15);
    await cache.find('a');
    expect(reads).to.equal(2);
  });

  it('do not wait for a look-up that hangs', async () => {
    const answers = [new Promise<null>(() => {}), Promise.resolve(record)];
    const cache = createKeyCache({ read: () => answers.shift() ?? Promise.resolve(null), ttl: 20, capacity: 10 });
    void cache.find('a');
    // longer than the ttl
    await sleep(30);
    expect((await cache.find('a'))?.record).to.equal(record);
  });

  it('are never replaced by what was read earlier', async () => {
    const cache = createKeyCache({ read: async () => null, ttl: 60_000, capacity: 10 });
    const now = performance.now();
    cache.keep('a', { record: { ...record, good: false }, since: now });
    cache.keep('a', { record, since: now - 1 });
    expect((await cache.find('a'))?.record.good).to.equal(false);
  });

  it('are limited in number: the oldest is dropped', async () => {
    const cache = createKeyCache({ read: async () => null, ttl: 60_000, capacity: 2 });
    for (const id of ['a', 'b', 'c']) cache.keep(id, { record, since: performance.now() });
    expect(await cache.find('a')).to.equal(null);
    expect(await cache.find('b')).to.not.equal(null);
    expect(await cache.find('c')).to.not.equal(null);
  });

  it('pass a failed look-up on to all who wait, and try again for the next', async () => {
    const answers = [Promise.reject(new Error('down')), Promise.resolve(record)];
    const cache = createKeyCache({ read: () => answers.shift() ?? Promise.resolve(null), ttl: 60_000, capacity: 10 });
    const waiting = await Promise.allSettled([cache.find('a'), cache.find('a')]);
    expect(waiting.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
    expect((await cache.find('a'))?.record).to.equal(record);
  });

  describe('that do not exist', () => {
    it('are looked up again only after the ttl', async () => {
      const reads: string[] = [];
      const cache = createKeyCache({
        read: async (id) => {
          reads.push(id);
          return reads.length > 1 ? record : null;
        },
        ttl: 300,
        capacity: 10,
      });
      const started = performance.now();
      expect(await cache.find('a')).to.equal(null);
      expect(await cache.find('a')).to.equal(null);
      expect(reads).to.deep.equal(['a']);
      const found = await eventually(
        () => cache.find('a'),
        (known) => known !== null,
      );
      expect(performance.now() - started).to.be.at.least(300);
      expect(found?.record).to.equal(record);
    });

    it('displace no key that exists, and are limited in number themselves', async () => {
      const reads: string[] = [];
      const read = async (id: string) => {
        reads.push(id);
        return null;
      };
      const cache = createKeyCache({ read, ttl: 5_000, capacity: 2 });
      cache.keep('good', { record, since: performance.now() });
      for (const id of ['a', 'b', 'c', 'b', 'c']) await cache.find(id);
      expect(reads).to.deep.equal(['a', 'b', 'c']);
      await cache.find('a');
      expect(reads).to.deep.equal(['a', 'b', 'c', 'a']);
      expect((await cache.find('good'))?.record).to.equal(record);
    });

    it('are looked up at once when this process has created the key', async () => {
      const answers = [null, record];
      const cache = createKeyCache({ read: async () => answers.shift() ?? null, ttl: 5_000, capacity: 10 });
      await cache.find('a');
      cache.created('a');
      expect((await cache.find('a'))?.record).to.equal(record);
    });

    it('stay unknown to a look-up that began before this process created the key, and to no later one', async () => {
      let answer = (_: null) => {};
      const slow = new Promise<null>((resolve) => {
        answer = resolve;
      });
      const answers = [slow, Promise.resolve(record)];
      const cache = createKeyCache({ read: () => answers.shift() ?? slow, ttl: 5_000, capacity: 10 });
      const before = cache.find('a');
      cache.created('a');
      answer(null);
      expect(await before).to.equal(null);
      expect((await cache.find('a'))?.record).to.equal(record);
    });
  });
});
