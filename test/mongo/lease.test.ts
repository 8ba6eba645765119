import { expect } from 'chai';
import type { mongo } from 'mongoose';
import { type Held, LeaseKeeper, type LeaseKeeperOptions, Leases } from '../../src/mongo/lease.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { silentLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually, until } from '../support/until.ts';

interface Room {
  _id: string;
  lease?: { token?: string; until?: Date };
  note?: string;
  isDone?: boolean;
}

const duration = 60_000;
const past = new Date(0);

describe('Leases', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let collection: mongo.Collection<Room>;
  let leases: Leases<Room>;

  before(async () => {
    database = await freshDatabase();
    const { connection } = database;
    collection = connection.getClient().db(connection.name).collection<Room>('rooms');
    leases = new Leases(collection, { fence: 'lease.token', until: 'lease.until', duration });
  });
  beforeEach(async () => {
    await collection.deleteMany({});
    await collection.insertMany(['a', 'b', 'c'].map((_id) => ({ _id })));
  });
  after(() => database.drop());

  const take = (_id: string, token: string, from = leases) =>
    from.take({ _id, $expr: leases.isFree }, { 'lease.token': token });
  const stored = async (_id: string) => (await collection.findOne({ _id })) ?? expect.fail('it is gone');
  const lapse = (_id: string) => collection.updateOne({ _id }, { $set: { 'lease.until': past } });
  const held = (_id: string, fence: string): Held => ({ _id, fence });

  describe('that are taken', () => {
    it('are given to one of many that ask at the same moment', async () => {
      const tokens = Array.from({ length: 20 }, (_, i) => `token ${i}`);
      const taken = await Promise.all(tokens.map((token) => take('a', token)));

      const given = taken.flatMap((one) => one?.document.lease?.token ?? []);
      expect(given).to.have.length(1);
      expect((await stored('a')).lease?.token).to.equal(given[0]);
    });

    it('are free again when they have lapsed by the clock of the database, and not before', async () => {
      expect(await take('a', 'first')).not.to.equal(null);
      expect(await take('a', 'second')).to.equal(null);
      await lapse('a');
      expect(await take('a', 'second')).not.to.equal(null);
    });

    it('last as long by the clock of the database, whatever the clock of the process says', async () => {
      const { now } = Date;
      try {
        // a process whose clock is a day ahead
        Date.now = () => now() + 86_400_000;
        await take('a', 'first');
        expect(await take('a', 'second')).to.equal(null);
      } finally {
        Date.now = now;
      }
      const { localTime } = await database.connection.getClient().db('admin').command({ hello: 1 });
      const left = Number((await stored('a')).lease?.until) - Number(localTime);
      expect(left).to.be.within(duration - 30_000, duration);
    });

    it('are certain for no longer than they last in the database, however late the answer is', async () => {
      const slow = {
        async findOneAndUpdate(...given: Parameters<typeof collection.findOneAndUpdate>) {
          const answer = await collection.findOneAndUpdate(...given);
          await new Promise((resolve) => setTimeout(resolve, 60));
          return answer;
        },
      } as unknown as typeof collection;
      const late = new Leases(slow, { fence: 'lease.token', until: 'lease.until', duration });
      const askedAt = performance.now();
      const taken = await take('a', 'late', late);

      expect(Number(taken?.heldUntil) - duration).to.be.within(askedAt, performance.now() - 50);
    });

    it('set what else is to be set, and tell the document as it is then', async () => {
      const taken = await leases.take({ _id: 'a' }, { 'lease.token': 'mine', note: 'taken' });

      expect(taken?.document).to.deep.equal(await stored('a'));
      expect(taken?.document).to.deep.include({ _id: 'a', note: 'taken' });
      expect(await leases.take({ _id: 'z' }, { 'lease.token': 'mine' })).to.equal(null);
    });
  });

  describe('that are renewed', () => {
    it('are told and extended, and those of others stay as they are, although they share the document or the fence', async () => {
      for (const id of ['a', 'b', 'c']) await take(id, 'shared');
      await lapse('b');
      await take('b', 'other');
      for (const id of ['a', 'c']) await lapse(id);
      const others = await stored('b');

      const mine = ['a', 'b', 'c'].map((id) => ({ ...held(id, 'shared'), more: `of ${id}` }));
      const renewed = await leases.renew(mine);
      expect(renewed.map(({ _id, more }) => [_id, more])).to.deep.equal([
        ['a', 'of a'],
        ['c', 'of c'],
      ]);
      expect(await stored('b')).to.deep.equal(others);
      for (const id of ['a', 'c']) expect(await take(id, 'other'), 'it is held again').to.equal(null);
    });

    it('under different fences are not mistaken for each other', async () => {
      await take('a', 'one');
      await take('b', 'two');
      const swapped = [held('a', 'two'), held('b', 'one'), held('a', 'one')];

      expect(await leases.renew(swapped)).to.deep.equal([held('a', 'one')]);
    });

    it('are only those of which the rest of the condition is true, and set further fields', async () => {
      await take('a', 'mine');
      await take('b', 'mine');
      await collection.updateOne({ _id: 'b' }, { $set: { isDone: true } });
      const [a, b] = [await stored('a'), await stored('b')];
      const renewed = await leases.renew([held('a', 'mine'), held('b', 'mine')], {
        where: { isDone: { $exists: false } },
        set: { note: 'renewed' },
      });

      expect(renewed).to.deep.equal([held('a', 'mine')]);
      expect((await stored('a')).note).to.equal('renewed');
      expect(Number((await stored('a')).lease?.until)).to.be.at.least(Number(a.lease?.until));
      expect(await stored('b')).to.deep.equal(b);
    });
  });

  describe('under which something is written', () => {
    it('let their holder write, and release them', async () => {
      await take('a', 'mine');
      expect(await leases.write(held('a', 'mine'), { note: 'mine' })).to.equal(true);
      expect(await stored('a')).to.deep.include({ note: 'mine' });
      expect(await take('a', 'other'), 'a write does not end the lease').to.equal(null);
      expect(await leases.write(held('a', 'mine'), { lease: '$$REMOVE' })).to.equal(true);
      expect(await take('a', 'other')).not.to.equal(null);
    });

    it('let no former holder change anything', async () => {
      await take('a', 'former');
      await lapse('a');
      await take('a', 'other');
      const before = await stored('a');

      expect(await leases.write(held('a', 'former'), { note: 'late' })).to.equal(false);
      expect(await leases.write(held('z', 'former'), { note: 'late' })).to.equal(false);
      expect(await stored('a')).to.deep.equal(before);
    });

    it('let a holder write whose lease has lapsed, if no other process has taken it', async () => {
      await take('a', 'mine');
      await lapse('a');
      expect(await leases.write(held('a', 'mine'), { note: 'late' })).to.equal(true);
    });

    it('fail as unavailable, and are not lost, when a replaced primary does not find a lease that is held', async () => {
      await take('a', 'mine');
      // as a primary answers that has not got the lease
      const outdated = new Proxy(collection, {
        get: (target, name) =>
          name === 'updateOne' ? async () => ({ matchedCount: 0 }) : Reflect.get(target, name, target).bind?.(target),
      });
      const stale = new Leases(outdated, { fence: 'lease.token', until: 'lease.until', duration });
      const error = await stale.write(held('a', 'mine'), { note: 'x' }).catch((reason: unknown) => reason);
      expect(isUnavailable(error), String(error)).to.equal(true);
    });
  });
});

describe('A keeper of leases', () => {
  const [a, b] = [{ name: 'a' }, { name: 'b' }];
  const keepers: { drop(lease: object): void }[] = [];

  /** @param lost leases that others have taken */
  function keeperOf(lost: Set<object>, options: Partial<LeaseKeeperOptions<object>> = {}) {
    const renewals: object[][] = [];
    const told: object[] = [];
    const keeper = new LeaseKeeper<object>({
      name: 'renewing',
      async renew(leases) {
        renewals.push([...leases]);
        return leases.filter((lease) => !lost.has(lease));
      },
      duration: 10_000,
      interval: 10,
      onLost: (lease) => void told.push(lease),
      logger: silentLogger,
      ...options,
    });
    keepers.push(keeper);
    return { keeper, renewals, told };
  }

  afterEach(() => {
    for (const keeper of keepers.splice(0)) for (const lease of [a, b]) keeper.drop(lease);
  });

  const soon = () => performance.now() + 200;

  it('renews what is held, all in one write, so that it lasts on', async () => {
    const { keeper, renewals } = keeperOf(new Set());
    keeper.hold(a, soon());
    keeper.hold(b, soon());
    expect(keeper.lasts(a, 1_000)).to.equal(false);
    await until(() => keeper.lasts(a, 1_000) && keeper.lasts(b, 1_000));
    expect(renewals[0]).to.deep.equal([a, b]);
  });

  it('tells of a lease that was lost, which lasts no longer than it did', async () => {
    const { keeper, told } = keeperOf(new Set([b]));
    keeper.hold(a, soon());
    keeper.hold(b, soon());
    await until(() => told.includes(b));
    await eventually(
      () => keeper.lasts(b, 0),
      (lasts) => !lasts,
    );
    expect(keeper.lasts(a, 1_000)).to.equal(true);
    expect(told).not.to.include(a);
  });

  it('does not call a lease lost when its renewal fails, and renews it later', async () => {
    let fails = true;
    const { keeper, told } = keeperOf(new Set(), {
      async renew(leases) {
        if (fails) throw new Error('the database is unavailable');
        return leases;
      },
    });
    keeper.hold(a, soon());
    await until(() => !keeper.lasts(a, 0));
    fails = false;
    await until(() => keeper.lasts(a, 1_000));
    expect(told).to.deep.equal([]);
  });

  it('counts a renewal from the moment it was asked for, however late the answer is', async () => {
    const { keeper } = keeperOf(new Set(), {
      duration: 1_000,
      longestRenewal: 5_000,
      async renew(leases) {
        await new Promise((resolve) => setTimeout(resolve, 300));
        return leases;
      },
    });
    keeper.hold(a, performance.now());
    await until(() => keeper.lasts(a, 0));
    expect(keeper.lasts(a, 701)).to.equal(false);
  });

  it('renews only what soon ends, if it is told so', async () => {
    const { keeper, renewals } = keeperOf(new Set(), { renewBelow: 5_000 });
    keeper.hold(a, performance.now() + 9_000);
    keeper.hold(b, performance.now() + 4_000);
    await until(() => keeper.lasts(b, 5_000));
    // shows that nothing more is renewed
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(renewals).to.deep.equal([[b]]);
  });

  it('knows when a lease ends that it only tracks, and does not renew it', async () => {
    const { keeper, renewals } = keeperOf(new Set());
    keeper.track(a, soon());
    expect(keeper.lasts(a, 0)).to.equal(true);
    expect(keeper.lasts(a, 200)).to.equal(false);
    await until(() => !keeper.lasts(a, 0));
    expect(renewals).to.deep.equal([]);
  });

  it('renews nothing that was dropped, although a renewal of it was under way', async () => {
    let answer = () => {};
    let asked = 0;
    const { keeper, told } = keeperOf(new Set(), {
      longestRenewal: 5_000,
      renew: () => {
        asked += 1;
        return new Promise((resolve) => {
          answer = () => resolve([]);
        });
      },
    });
    keeper.hold(a, soon());
    await until(() => asked > 0);
    keeper.drop(a);
    answer();
    expect(keeper.lasts(a, 0)).to.equal(false);
    // shows that nothing more is renewed
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([asked, told]).to.deep.equal([1, []]);
    expect(keeper.lasts({}, 0)).to.equal(false);
  });
});
