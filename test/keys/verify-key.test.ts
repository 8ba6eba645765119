import { createHash } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createKeyVerifier, digestOf, type KeyRecord, newKeyText } from '../../src/keys/verify-key.ts';
import { newId } from '../support/ids.ts';
import { eventually } from '../support/until.ts';

type Deps = Parameters<typeof createKeyVerifier>[0];

function verifier(deps: Partial<Deps>) {
  return createKeyVerifier({
    read: async () => null,
    ttl: 60_000,
    capacity: 10,
    gracePeriod: 60_000,
    onUse() {},
    ...deps,
  });
}

describe('the text of an API key', () => {
  const id = newId('key', Date.now());
  const text = newKeyText(id);

  it('is emg_, the id without its prefix, and 256 random bits', () => {
    expect(text).to.match(/^emg_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/);
    expect(text.slice(4, 30)).to.equal(id.slice(4));
    expect(Buffer.from(text.slice(31), 'base64url')).to.have.length(32);
    expect(newKeyText(id)).to.not.equal(text);
  });

  /** What a token is looked up by. */
  async function lookedUp(token: unknown): Promise<string[]> {
    const ids: string[] = [];
    const read = async (id: string) => {
      ids.push(id);
      return null;
    };
    expect(await verifier({ read }).authenticate(token as string)).to.equal(null);
    return ids;
  }

  it('carries its id', async () => {
    expect(await lookedUp(text)).to.deep.equal([id]);
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
    it(`is refused with ${what}`, async () => {
      expect(await lookedUp(token)).to.deep.equal([]);
      expect(verifier({}).authenticateCached(token as string)).to.equal(null);
    });
  }
});

/** A key with its text, and what is stored of it. */
function newKey(userId = 'usr_1') {
  const id = newId('key', Date.now());
  const text = newKeyText(id);
  const principal = { userId };
  const record: KeyRecord = { digest: digestOf(text), principal, good: true };
  // right in its form, and of the same id
  const wrong = text.slice(0, -1) + (text.endsWith('A') ? 'B' : 'A');
  return { id, text, wrong, principal, record };
}

describe('recently used keys', () => {
  const { id, text, wrong, principal, record } = newKey();

  function watched(more: Partial<Deps> = {}) {
    const reads: string[] = [];
    const read = async (id: string) => {
      reads.push(id);
      return record;
    };
    return { keys: verifier({ read, ...more }), reads };
  }

  it('share one look-up while it is under way', async () => {
    const { keys, reads } = watched();
    const found = await Promise.all(Array.from({ length: 50 }, () => keys.authenticate(text)));
    expect(reads).to.deep.equal([id]);
    for (const known of found) expect(known).to.equal(principal);
  });

  it('are read again for a wrong text, which keeps none', async () => {
    const { keys, reads } = watched();
    expect(await keys.authenticate(wrong)).to.equal(null);
    expect(await keys.authenticate(wrong)).to.equal(null);
    expect(reads).to.deep.equal([id, id]);
  });

  it('are used no longer than the ttl, counted from the start of the look-up', async () => {
    let reads = 0;
    const read = async () => {
      reads += 1;
      // the look-up is slow on purpose
      await sleep(30);
      return record;
    };
    const keys = verifier({ read, ttl: 40 });
    await keys.authenticate(text);
    // measures time: with the look-up, longer than the ttl
    await sleep(15);
    await keys.authenticate(text);
    expect(reads).to.equal(2);
  });

  /** A verifier that has known the key for so long that it reads it again, in this way. */
  async function renewing(again: () => Promise<KeyRecord>) {
    const reads: string[] = [];
    const keys = verifier({
      async read(asked) {
        reads.push(asked);
        return reads.length === 2 ? again() : record;
      },
      ttl: 1_500,
    });
    await keys.authenticate(text);
    // longer than two thirds of the ttl, so that the record is to be renewed
    await sleep(1_050);
    expect(keys.authenticateCached(wrong)).to.equal(null);
    expect(reads).to.deep.equal([id]);
    expect(keys.authenticateCached(text)).to.equal(principal);
    expect(keys.authenticateCached(text)).to.equal(principal);
    expect(reads).to.deep.equal([id, id]);
    return keys;
  }

  it('are read again beside a use before the ttl is over, once, so that no later use waits', async function () {
    // where a busy machine stands still, the ttl is over
    this.retries(3);
    const keys = await renewing(async () => record);
    // longer than the rest of the first ttl
    await sleep(500);
    expect(keys.authenticateCached(text)).to.equal(principal);
  });

  it('serve for the rest of the ttl if that fails, and are refused from then on if they were revoked', async function () {
    // as above
    this.retries(3);
    const failed = await renewing(async () => {
      throw new Error('down');
    });
    expect(failed.authenticateCached(text)).to.equal(principal);
    const revoked = await renewing(async () => ({ ...record, good: false }));
    await eventually(
      () => revoked.authenticateCached(text),
      (known) => known === null,
    );
  });

  it('are not renewed by what was read before this process changed the key', async function () {
    // as above
    this.retries(3);
    let answer = (_: KeyRecord) => {};
    const slow = new Promise<KeyRecord>((resolve) => {
      answer = resolve;
    });
    const keys = await renewing(() => slow);
    keys.changed(id);
    answer(record);
    await nextTurn();
    expect(keys.authenticateCached(text)).to.equal(undefined);
  });

  it('do not wait for a look-up that hangs', async () => {
    const answers = [new Promise<null>(() => {}), Promise.resolve(record)];
    const keys = verifier({ read: () => answers.shift() ?? Promise.resolve(null), ttl: 20 });
    void keys.authenticate(text);
    // longer than the ttl
    await sleep(30);
    expect(await keys.authenticate(text)).to.equal(principal);
  });

  it('are never replaced by what was read earlier', async () => {
    let answer = (_: KeyRecord) => {};
    const slow = new Promise<KeyRecord>((resolve) => {
      answer = resolve;
    });
    const keys = verifier({ read: () => slow });
    const before = keys.authenticate(text);
    keys.revoked(id, { ...record, good: false });
    answer(record);
    expect(await before).to.equal(principal);
    expect(await keys.authenticate(text)).to.equal(null);
  });

  it('are limited in number: the oldest is dropped', async () => {
    const others = [newKey('usr_a'), newKey('usr_b'), newKey('usr_c')] as const;
    const reads: string[] = [];
    const read = async (id: string) => {
      reads.push(id);
      return others.find((key) => key.id === id)?.record ?? null;
    };
    const keys = verifier({ read, capacity: 2 });
    for (const key of others) await keys.authenticate(key.text);
    expect(reads.splice(0)).to.deep.equal(others.map((key) => key.id));
    for (const key of [others[1], others[2]]) expect(await keys.authenticate(key.text)).to.equal(key.principal);
    expect(reads).to.deep.equal([]);
    expect(keys.authenticateCached(others[0].text)).to.equal(undefined);
    expect(await keys.authenticate(others[0].text)).to.equal(others[0].principal);
    expect(reads).to.deep.equal([others[0].id]);
  });

  it('pass a failed look-up on to all who wait, and try again for the next', async () => {
    const answers = [Promise.reject(new Error('down')), Promise.resolve(record)];
    const keys = verifier({ read: () => answers.shift() ?? Promise.resolve(null) });
    const waiting = await Promise.allSettled([keys.authenticate(text), keys.authenticate(text)]);
    expect(waiting.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
    expect(await keys.authenticate(text)).to.equal(principal);
  });

  describe('that do not exist', () => {
    it('are looked up again only after the ttl', async () => {
      const reads: string[] = [];
      const keys = verifier({
        read: async (id) => {
          reads.push(id);
          return reads.length > 1 ? record : null;
        },
        ttl: 300,
      });
      const started = performance.now();
      expect(await keys.authenticate(text)).to.equal(null);
      expect(await keys.authenticate(text)).to.equal(null);
      expect(reads).to.deep.equal([id]);
      const found = await eventually(
        () => keys.authenticate(text),
        (known) => known !== null,
      );
      expect(performance.now() - started).to.be.at.least(300);
      expect(found).to.equal(principal);
    });

    it('displace no key that exists, and are limited in number themselves', async () => {
      const reads: string[] = [];
      const read = async (asked: string) => {
        reads.push(asked);
        return asked === id ? record : null;
      };
      const keys = verifier({ read, ttl: 5_000, capacity: 2 });
      await keys.authenticate(text);
      expect(reads.splice(0)).to.deep.equal([id]);
      const [a, b, c] = [newKey(), newKey(), newKey()] as const;
      for (const key of [a, b, c, b, c]) await keys.authenticate(key.text);
      expect(reads).to.deep.equal([a.id, b.id, c.id]);
      await keys.authenticate(a.text);
      expect(reads).to.deep.equal([a.id, b.id, c.id, a.id]);
      expect(await keys.authenticate(text)).to.equal(principal);
      expect(reads).to.have.length(4);
    });

    it('are looked up at once when this process has created the key', async () => {
      const answers = [null, record];
      const keys = verifier({ read: async () => answers.shift() ?? null, ttl: 5_000 });
      await keys.authenticate(text);
      keys.created(id);
      expect(await keys.authenticate(text)).to.equal(principal);
    });

    it('stay unknown to a look-up that began before this process created the key, and to no later one', async () => {
      let answer = (_: null) => {};
      const slow = new Promise<null>((resolve) => {
        answer = resolve;
      });
      const answers = [slow, Promise.resolve(record)];
      const keys = verifier({ read: () => answers.shift() ?? slow, ttl: 5_000 });
      const before = keys.authenticate(text);
      keys.created(id);
      answer(null);
      expect(await before).to.equal(null);
      expect(await keys.authenticate(text)).to.equal(principal);
    });
  });
});
