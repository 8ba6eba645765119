import { expect } from 'chai';
import { Schedule, type ScheduledWebhook } from '../../src/deliveries/schedule.ts';

type Webhook = ScheduledWebhook<string>;

/** The webhook `Xa` is of the account `X`; one in lower case is alone in its account. */
const refOf = (webhookId: string) => ({ webhookId, userId: webhookId.slice(0, 1) });

/** A schedule, and what is done with it at a time that the test sets. */
function start(choices = {}) {
  const schedule = new Schedule<string>({
    concurrency: 200,
    concurrencyPerAccount: 50,
    concurrencyPerWebhook: 200,
    ...choices,
  });
  const clock = { now: 0 };
  const of = (webhookId: string) => schedule.of(refOf(webhookId), clock.now);

  function hold(webhook: Webhook, count = 1): void {
    for (let i = 0; i < count; i += 1) schedule.hold(webhook);
  }
  function begin(webhook: Webhook, count = 1): void {
    for (let i = 0; i < count; i += 1) schedule.begin(webhook);
  }
  function letGo(webhook: Webhook, count = 1): void {
    for (let i = 0; i < count; i += 1) {
      schedule.release(webhook);
      schedule.recorded();
    }
  }
  return {
    schedule,
    clock,
    of,
    hold,
    begin,
    letGo,
    end: (webhook: Webhook, duration: number) => schedule.end(webhook, duration, clock.now),
    room: (webhookId: string) => schedule.room(of(webhookId), clock.now),
    roomInAll: () => Math.max(0, schedule.inAll.limit - schedule.inAll.held),
    hasPlace: (webhookId: string) => schedule.hasPlace(of(webhookId)),
    due(...webhookIds: string[]) {
      for (const webhookId of webhookIds) schedule.noteDue(webhookId, refOf(webhookId).userId, clock.now);
    },
    /** How many attempts are claimed next, by webhook. */
    claims() {
      const shares = [...schedule.nextClaims(clock.now)];
      return Object.fromEntries(shares.map(([webhookId, { count }]) => [webhookId, count]));
    },
    /** Claims what is next, as if there were enough of everything, and holds it. */
    claimAll(left: (webhookId: string) => number = () => Number.POSITIVE_INFINITY) {
      const shares = schedule.nextClaims(clock.now);
      const found = [...shares].flatMap(([webhookId, { count }]) =>
        Array.from({ length: Math.min(count, left(webhookId)) }, () => refOf(webhookId)),
      );
      schedule.served(shares, found, clock.now);
      for (const ref of found) schedule.hold(schedule.of(ref, clock.now));
      return [...shares.keys()];
    },
  };
}

describe('The shares of accounts', () => {
  function startAccounts(choices = {}) {
    const scene = start(choices);
    const { schedule, of, hold, begin, letGo } = scene;
    const underWay = new Map<string, Webhook[]>();
    let webhooks = 0;
    const next = (userId: string) => of(`${userId}${webhooks}`);
    /** Sends as much as an account may at once, each request to another webhook; answers how many that were. */
    function fill(userId: string): number {
      const before = schedule.sending;
      for (let webhook = next(userId); schedule.hasPlace(webhook); webhook = next(userId)) {
        webhooks += 1;
        hold(webhook);
        begin(webhook);
        underWay.set(userId, [...(underWay.get(userId) ?? []), webhook]);
      }
      return schedule.sending - before;
    }
    function end(userId: string, duration: number): void {
      const webhook = underWay.get(userId)?.shift();
      if (!webhook) throw new Error('nothing is under way');
      scene.end(webhook, duration);
      letGo(webhook);
    }
    return { schedule, fill, end, hasPlace: scene.hasPlace, sending: (userId: string) => underWay.get(userId)?.length };
  }

  for (const [hanging, sizes] of [
    [1, [50]],
    [4, [50, 37, 28, 21]],
    [10, [50, 37, 28, 21, 16, 12, 9, 6, 5, 4]],
  ] as const) {
    it(`are ${sizes.join(', ')} of 200 places when ${hanging} hang, and one is left for the next account`, () => {
      const { fill, hasPlace } = startAccounts();
      const taken = Array.from({ length: hanging }, (_, i) => fill(String.fromCharCode(65 + i)));

      expect(taken).to.deep.equal(sizes);
      expect(hasPlace('Z')).to.equal(true);
    });
  }

  it('give a single account with fast receivers all but a tenth of the places, after a few answers', () => {
    const { fill, end, schedule } = startAccounts();
    fill('X');
    for (let answered = 0; answered < 150; answered += 1) {
      end('X', 100);
      fill('X');
    }

    expect(schedule.sending).to.equal(180);
  });

  it('become equal for two accounts that are busy and fast', () => {
    const { fill, end, schedule, sending } = startAccounts();
    for (const userId of ['X', 'Y']) {
      for (let answered = 0; answered < 400; answered += 1) {
        fill(userId);
        end(userId, 100);
      }
      fill(userId);
    }
    for (let turn = 0; turn < 1_000; turn += 1) {
      for (const userId of ['X', 'Y']) {
        end(userId, 100);
        fill('X');
        fill('Y');
      }
    }

    expect(Math.abs((sending('X') ?? 0) - (sending('Y') ?? 0))).to.be.below(20);
    expect(schedule.sending).to.be.within(180, 199);
  });

  it('fall back to the first share when a fast account becomes slow', () => {
    const { fill, end, sending } = startAccounts();
    for (let answered = 0; answered < 300; answered += 1) {
      fill('X');
      end('X', 100);
    }
    fill('X');
    expect(sending('X')).to.equal(180);
    for (let ended = 0; ended < 150; ended += 1) end('X', 30_000);
    fill('X');

    expect(sending('X')).to.equal(50);
  });

  it('give one account every place when its limit is as high as the total', () => {
    expect(startAccounts({ concurrencyPerAccount: 200 }).fill('X')).to.equal(200);
    expect(startAccounts({ concurrency: 1, concurrencyPerAccount: 1 }).fill('X')).to.equal(1);
    expect(startAccounts({ concurrency: 5, concurrencyPerAccount: 10_000 }).fill('X')).to.equal(5);
  });

  it('are divided among its webhooks: each may use two thirds of what the others leave, up to its limit', () => {
    for (const [concurrencyPerWebhook, sizes] of [
      [200, [20, 6, 2, 1, 1, 0]],
      [10, [10, 10, 6, 2, 1, 1, 0]],
    ] as const) {
      const { schedule, of, hold, begin } = start({ concurrencyPerAccount: 30, concurrencyPerWebhook });
      const taken = sizes.map((_, i) => {
        let count = 0;
        for (const webhook = of(`X${i}`); schedule.hasPlace(webhook); count += 1) {
          hold(webhook);
          begin(webhook);
        }
        return count;
      });
      expect(taken).to.deep.equal(sizes);
    }
  });
});

describe('Attempts claimed ahead', () => {
  /** A webhook with ten places, in an account with all of them. One of its attempts is held. */
  function startWebhook() {
    const scene = start({ concurrencyPerAccount: 200, concurrencyPerWebhook: 10 });
    const webhook = scene.of('a');
    scene.hold(webhook);
    return {
      ...scene,
      webhook,
      /** How many may be held. */
      limit: () => scene.room('a') + webhook.held,
      answer(count: number, duration: number) {
        for (let i = 0; i < count; i += 1) {
          scene.begin(webhook);
          scene.end(webhook, duration);
        }
      },
      /** An attempt finds no place in time. */
      isStuck() {
        scene.schedule.wait(webhook, 'stuck');
        scene.schedule.leave(webhook, 'stuck', true);
      },
    };
  }

  it('are as many as the places at first', () => {
    expect(startWebhook().limit()).to.equal(20);
  });

  it('become more the faster the receiver answers, up to forty times its places', () => {
    const { limit, answer } = startWebhook();
    answer(100, 150);
    expect(limit()).to.be.within(29, 30);
    answer(100, 1);

    expect(limit()).to.equal(410);
  });

  it('are claimed once half of them are used, and then as many as there is room for', () => {
    const { webhook, hold, letGo, due, claims, room } = startWebhook();
    due('a');
    hold(webhook, 14);
    expect(claims()).to.deep.equal({});
    letGo(webhook);

    expect(claims()).to.deep.equal({ a: 6 });
    expect(room('a')).to.equal(6);
  });

  it('leave a single free place to a claim when there are none', () => {
    const { webhook, isStuck, hold, begin, letGo, due, claims } = startWebhook();
    due('a');
    isStuck();
    hold(webhook, 9);
    begin(webhook, 9);
    expect(claims()).to.deep.equal({});
    letGo(webhook);

    expect(claims()).to.deep.equal({ a: 1 });
  });

  it('are hardly any when the receiver is slow', () => {
    const { limit, answer } = startWebhook();
    answer(100, 2_000);

    expect(limit()).to.equal(11);
  });

  it('are none while all places of the webhook hang', () => {
    const { webhook, clock, hold, begin, end, letGo, room } = startWebhook();
    hold(webhook, 9);
    begin(webhook, 10);
    expect(room('a')).to.equal(10);
    clock.now += 301;
    expect(room('a')).to.equal(0);
    end(webhook, 301);
    letGo(webhook);

    expect(room('a')).to.be.above(0);
  });

  it('are none after an attempt found no place in time, until answers are fast again', () => {
    const { limit, isStuck, answer } = startWebhook();
    isStuck();
    expect(limit()).to.equal(10);
    answer(100, 1);

    expect(limit()).to.equal(410);
  });

  it('are of all accounts together five times the places, and of an account its part of that', () => {
    const { hold, of, room, roomInAll } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    for (let i = 0; i < 10; i += 1) {
      expect(room(`X${i}`), String(i)).to.be.above(0);
      hold(of(`X${i}`));
    }
    expect(room('Xz')).to.equal(0);
    expect(room('Ya')).to.be.above(0);
    for (let i = 10; i < 40; i += 1) hold(of(String.fromCharCode(97 + i)));
    expect([roomInAll(), room('Z')]).to.deep.equal([0, 0]);
  });

  it('of all webhooks are claimed again once half of them are used', () => {
    const { schedule, hold, of, letGo, room } = start({ concurrency: 2, concurrencyPerAccount: 2 });
    for (const webhookId of 'abcdefgh') hold(of(webhookId));
    expect([schedule.wantedInAll, room('i')]).to.deep.equal([0, 2]);
    for (const webhookId of 'abc') letGo(of(webhookId));

    expect(schedule.wantedInAll).to.equal(5);
  });

  it('count until they are recorded, although their places are free before', () => {
    const { schedule, hold, of, room, roomInAll } = start({ concurrency: 2, concurrencyPerAccount: 2 });
    for (const webhookId of 'abcdefghij') hold(of(webhookId));
    for (const webhookId of 'abcde') schedule.release(of(webhookId));
    expect([roomInAll(), room('a')]).to.deep.equal([0, 0]);
    schedule.recorded();

    expect([roomInAll(), room('a')]).to.deep.equal([1, 1]);
  });
});

describe('What is claimed next', () => {
  it('is of each webhook what it has room for', () => {
    const { due, claims } = start({ concurrency: 100, concurrencyPerAccount: 100, concurrencyPerWebhook: 2 });
    due('a', 'b');
    expect(claims()).to.deep.equal({ a: 4, b: 4 });
  });

  it('is of the webhooks in turn when there is room for few', () => {
    const { due, claimAll, letGo, of } = start({ concurrency: 1, concurrencyPerAccount: 1 });
    due(...[...'abcdefg'].map((name) => `X${name}`));
    expect(claimAll()).to.deep.equal(['Xa', 'Xb', 'Xc', 'Xd', 'Xe']);
    for (const name of 'abc') letGo(of(`X${name}`));

    expect(claimAll()).to.deep.equal(['Xf', 'Xg', 'Xa']);
  });

  it('divides the room evenly', () => {
    const { due, claims, hold, of } = start({ concurrency: 4, concurrencyPerAccount: 4 });
    for (const name of 'abcdefghi') hold(of(`Y${name}`));
    due('Xa', 'Xb', 'Xc');

    expect(claims()).to.deep.equal({ Xa: 4, Xb: 4, Xc: 3 });
  });

  it('is no more of an account than its part, of its webhooks in turn', () => {
    const { due, claims, claimAll, letGo, of } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    due(...[...'abcdefghijkl'].map((name) => `X${name}`), 'Ya');
    expect(claims()).to.deep.equal({ ...Object.fromEntries([...'abcdefghij'].map((name) => [`X${name}`, 1])), Ya: 2 });
    claimAll();
    expect(claims()).to.deep.equal({});
    for (const name of 'abcde') letGo(of(`X${name}`));

    expect(Object.keys(claims())).to.deep.equal(['Xk', 'Xl', 'Xa', 'Xb']);
  });

  it('is of the webhooks of many accounts together, however many one account has', () => {
    const { due, claims } = start();
    due(...Array.from({ length: 300 }, (_, i) => `X${i}`), 'Ya');

    const webhookIds = Object.keys(claims());
    expect(webhookIds.slice(0, 2)).to.deep.equal(['X0', 'Ya']);
    expect(webhookIds.length).to.be.at.most(100);
  });

  it('learns the account of a webhook from the first read, and respects its part after that', () => {
    const { schedule, claims, claimAll, clock } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    const names = [...'abcdef'].map((name) => `X${name}`);
    for (const webhookId of names) schedule.noteDue(webhookId, undefined, clock.now);
    expect(claims()).to.deep.equal(Object.fromEntries(names.map((webhookId) => [webhookId, 2])));
    claimAll();
    for (const webhookId of names) schedule.noteDue(webhookId, undefined, clock.now);

    expect(claims(), 'nothing is wanted of the account').to.deep.equal({});
  });

  it('is nothing of a webhook of which less was found than asked for, unless more became due meanwhile', () => {
    const { due, schedule, clock } = start();
    due('a');
    const shares = schedule.nextClaims(clock.now);
    due('a');
    schedule.served(shares, [refOf('a')], clock.now);
    expect(schedule.hasDue).to.equal(true);
    schedule.served(schedule.nextClaims(clock.now), [], clock.now);

    expect([schedule.hasDue, schedule.nextClaims(clock.now).size]).to.deep.equal([false, 0]);
  });

  it('comes before new deliveries, which begin as soon as less than half is claimed ahead and nothing is left', () => {
    const { due, schedule, of, hold, letGo, claimAll, clock } = start({ concurrency: 4, concurrencyPerAccount: 4 });
    const mayStart = (webhookId: string) => schedule.mayStartNew(of(webhookId), clock.now);
    expect(mayStart('a')).to.equal(true);
    due('a');
    claimAll();
    expect(mayStart('a'), 'more of it may have been due for longer').to.equal(false);
    due('b');
    hold(of('b'), 3);
    expect(mayStart('b'), 'the rest of its room is for what is due').to.equal(false);
    expect(mayStart('c')).to.equal(true);
    expect(schedule.mayWaitNew(of('b'), clock.now), 'what is stored comes first').to.equal(false);
    letGo(of('a'), 3);
    letGo(of('b'), 2);
    claimAll(() => 0);
    expect([schedule.hasDue, schedule.mayWaitNew(of('b'), clock.now)]).to.deep.equal([false, true]);
  });

  it('leaves to what is stored half of what may be claimed ahead, and lets new deliveries begin while any place is free', () => {
    const { schedule, of, hold, room, clock } = start({ concurrencyPerWebhook: 10 });
    const mayStart = (webhookId: string) => schedule.mayStartNew(of(webhookId), clock.now);
    const inAll = room('a');
    let begun = 0;
    for (; mayStart('a'); begun += 1) hold(of('a'));
    expect(begun).to.equal(10 + (inAll - 10) / 2);
    expect(room('a')).to.equal((inAll - 10) / 2);

    const hanging = start({ concurrencyPerWebhook: 10 });
    hanging.hold(hanging.of('b'), 9);
    hanging.begin(hanging.of('b'), 9);
    hanging.clock.now += 301;
    expect(hanging.schedule.mayStartNew(hanging.of('b'), hanging.clock.now)).to.equal(true);
    hanging.hold(hanging.of('b'));
    hanging.begin(hanging.of('b'));
    expect(hanging.schedule.mayStartNew(hanging.of('b'), hanging.clock.now)).to.equal(false);

    // they may not wait in memory, so they take all of its room
    schedule.limits.note('c', 12, 0, clock.now);
    hold(of('c'), 11);
    expect(mayStart('c')).to.equal(true);
  });

  it('is told when others had to wait for the room that ends of attempts give back', () => {
    const { due, schedule, claims, claimAll, letGo, of, clock } = start({ concurrency: 2, concurrencyPerAccount: 2 });
    due('a', 'b', 'c', 'd', 'e', 'f', 'g');
    claimAll();
    due('h');
    expect([claims(), schedule.mayClaimOthers]).to.deep.equal([{}, false]);
    for (const webhookId of 'abcdefg') while (of(webhookId).held > 0) letGo(of(webhookId));

    expect(schedule.mayClaimOthers).to.equal(true);
    expect(schedule.mayClaim(of('h'), clock.now)).to.equal(true);
    expect(schedule.mayClaim(of('i'), clock.now), 'nothing is due of this account').to.equal(false);
  });
});

describe('A rate limit that was met', () => {
  it('leaves room for as many attempts as may wait for their permit, and none while it pauses', () => {
    const { schedule, of, hold, begin, room, clock } = start();
    expect(schedule.limits.note('a', 3, 0, clock.now)).to.equal(false);
    expect([room('a'), schedule.limits.has('a', clock.now)]).to.deep.equal([3, true]);
    hold(of('a'), 2);
    expect(room('a')).to.equal(1);
    begin(of('a'), 2);
    expect(room('a'), 'what is being sent has its permit').to.equal(3);
    expect(schedule.limits.note('a', 3, 700, clock.now), 'a pause has begun').to.equal(true);
    expect(schedule.limits.note('a', 3, 500, clock.now), 'a shorter one changes nothing').to.equal(false);
    clock.now += 699;
    expect(room('a')).to.equal(0);
    clock.now += 1;
    expect(room('a')).to.equal(3);
  });

  it('asks for more once half of what may wait is used', () => {
    const { schedule, of, hold, letGo, due, claims, clock } = start();
    schedule.limits.note('a', 4, 0, clock.now);
    due('a');
    hold(of('a'), 3);
    expect(claims()).to.deep.equal({});
    letGo(of('a'));
    expect(claims()).to.deep.equal({ a: 2 });
  });

  it('lets no new delivery wait in memory, and is forgotten after five seconds', () => {
    const { schedule, of, hold, clock } = start();
    hold(of('a'));
    schedule.limits.note('a', 1, 0, clock.now);
    expect(schedule.mayWaitNew(of('a'), clock.now)).to.equal(false);
    clock.now += 5_000;
    expect(schedule.mayWaitNew(of('a'), clock.now)).to.equal(true);
  });
});
