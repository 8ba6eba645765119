import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { FirstAttempt, PreparedAttempt } from '../../src/deliveries/attempt.ts';
import type { AttemptRef, ComingAttempt } from '../../src/deliveries/claims.ts';
import type { AttemptKey } from '../../src/deliveries/model.ts';
import { Scheduler } from '../../src/deliveries/scheduler.ts';
import { HeldClock } from '../support/clock.ts';
import { until } from '../support/until.ts';

/** The webhook `Xa` is of the account `X`; one in lower case is alone in its account. The delivery `Xa7` is of the webhook `Xa`. */
const refOf = (deliveryId: string): AttemptRef => {
  const webhookId = deliveryId.replace(/\d+$/, '');
  return { deliveryId, webhookId, userId: webhookId.slice(0, 1), attempt: 1 };
};

/** A scheduler over deliveries in memory, whose attempts end when the test says so. */
function start(choices: Partial<ConstructorParameters<typeof Scheduler>[0]> = {}) {
  /** In the order in which they became due. */
  const stored: string[] = [];
  const reads: Record<string, number>[] = [];
  const prepared: string[] = [];
  const sent: string[] = [];
  const givenBack: string[] = [];
  const recorded: string[] = [];
  const ends = new Map<string, () => void>();
  const warnings: string[] = [];
  const database = { isAway: false };
  const next: { prepared?: PreparedAttempt; following?: ComingAttempt } = {};
  const ready = (deliveryId: string) => ({
    async send() {
      sent.push(deliveryId);
      await new Promise<void>((resolve) => ends.set(deliveryId, resolve));
      return async () => {
        recorded.push(deliveryId);
        const { following } = next;
        delete next.following;
        return following;
      };
    },
    async giveBack() {
      givenBack.push(deliveryId);
    },
  });
  async function prepare({ deliveryId }: AttemptKey): Promise<PreparedAttempt> {
    prepared.push(deliveryId);
    const { prepared: other } = next;
    delete next.prepared;
    return other ?? { ready: ready(deliveryId) };
  }
  const scheduler = new Scheduler({
    concurrency: 4,
    concurrencyPerAccount: 1_000,
    concurrencyPerWebhook: 2,
    maxWait: 10_000,
    attempts: {
      prepare(attempt) {
        stored.splice(stored.indexOf(attempt.deliveryId), 1);
        const preparing = prepare(attempt);
        return { isClaimed: preparing.then(({ ready: claimed }) => claimed !== null), prepared: preparing };
      },
      prepareFirst: ({ claim: { delivery } }) => prepare({ deliveryId: delivery._id, attempt: 1 }),
    },
    due: {
      async ofWebhooks(shares) {
        if (database.isAway) throw new Error('no primary');
        reads.push(Object.fromEntries(shares));
        await new Promise((resolve) => setImmediate(resolve));
        return [...shares].flatMap(([webhookId, count]) =>
          stored
            .map(refOf)
            .filter((ref) => ref.webhookId === webhookId)
            .slice(0, count),
        );
      },
    },
    logger: { warn: (message) => warnings.push(message) },
    ...choices,
  });
  scheduler.start();
  /** What follows from what was done, but for timers. */
  async function turn(): Promise<void> {
    for (let i = 0; i < 5; i += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  const first = (deliveryId: string) => ({ claim: { delivery: { _id: deliveryId } } }) as FirstAttempt;
  const begin = (deliveryId: string) => scheduler.first(refOf(deliveryId), () => first(deliveryId));
  return {
    scheduler,
    stored,
    reads,
    prepared,
    sent,
    givenBack,
    recorded,
    warnings,
    database,
    next,
    ready,
    turn,
    begin,
    hasRoom: (webhookId: string) => scheduler.hasRoom(refOf(webhookId)),
    /** First attempts of new deliveries; answers which of them have begun. */
    async offer(...ids: string[]): Promise<string[]> {
      const begun = ids.filter((id) => begin(id) === 'begun');
      await turn();
      return begun;
    },
    /** Stored attempts that are due. */
    async due(...ids: string[]) {
      stored.push(...ids);
      for (const id of ids) scheduler.look(refOf(id));
      await turn();
    },
    async end(...ids: string[]) {
      for (const id of ids) {
        ends.get(id)?.();
        await turn();
      }
    },
    /** Ends whatever is being sent, until everything has been. */
    async endAll() {
      while (scheduler.attempts.held > 0) {
        for (const end of ends.values()) end();
        ends.clear();
        await turn();
      }
    },
  };
}

/** So many deliveries of a webhook. */
const deliveriesOf = (webhookId: string, count: number) => Array.from({ length: count }, (_, i) => `${webhookId}${i}`);

describe('The scheduler', () => {
  it('sends no more at once to a webhook than its share, and gives other webhooks the rest', async () => {
    const { offer, sent } = start();
    await offer('a1', 'a2', 'a3', 'b1', 'c1', 'd1');

    expect(sent).to.deep.equal(['a1', 'a2', 'b1', 'c1']);
  });

  it('holds attempts that were claimed ahead until a place is free, one webhook after the other', async () => {
    const { offer, sent, end } = start({ concurrency: 2, concurrencyPerWebhook: 1 });
    await offer('a1', 'b1', 'a2', 'b2', 'c1');
    await end('a1', 'b1', 'a2');

    expect(sent).to.deep.equal(['a1', 'b1', 'a2', 'b2', 'c1']);
  });

  it('begins no more of a webhook than its places and half of what may be claimed ahead, and another when there is room', async () => {
    const { offer, hasRoom, prepared, end } = start({ concurrency: 8 });
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3']);
    expect([hasRoom('a'), hasRoom('b')]).to.deep.equal([false, true]);
    await end('a1');

    expect(prepared).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
  });

  it('keeps no room for a webhook that has nothing left', async () => {
    const { offer, end, sent, hasRoom } = start({ concurrency: 8 });
    for (let i = 10; i < 40; i += 1) {
      await offer(`a${i}`);
      expect(hasRoom('a')).to.equal(true);
      await end(`a${i}`);
    }
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3']);
    expect(sent.slice(-2)).to.deep.equal(['a1', 'a2']);
    expect(await offer('b1', 'b2', 'b3', 'b4', 'b5')).to.deep.equal(['b1', 'b2', 'b3']);
  });

  it('wants more first attempts once half of all that is claimed ahead is used, and says so', async () => {
    const { scheduler, offer, end, turn, hasRoom } = start({ concurrency: 2 });
    await offer('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1');
    expect([scheduler.wantedFirsts, hasRoom('i')]).to.deep.equal([0, true]);
    let isWanted = false;
    void scheduler.whenWanted().then(() => {
      isWanted = true;
    });
    await end('a1', 'b1');
    expect(isWanted).to.equal(false);
    await end('c1');
    await turn();

    expect([isWanted, scheduler.wantedFirsts]).to.deep.equal([true, 5]);
  });

  it('never holds the same delivery twice', async () => {
    const { offer, due, prepared, sent } = start();
    await offer('a1', 'a1', 'a2', 'a3', 'a3');
    await due('a1', 'a2');

    expect(prepared).to.deep.equal(['a1', 'a2', 'a3']);
    expect(sent).to.deep.equal(['a1', 'a2']);
  });

  it('frees the place of an attempt before its outcome is recorded', async () => {
    const { scheduler, offer, next, sent, turn } = start({ concurrency: 1, concurrencyPerWebhook: 1 });
    let record = () => {};
    const whenRecorded = new Promise<undefined>((resolve) => {
      record = () => resolve(undefined);
    });
    next.prepared = { ready: { send: async () => () => whenRecorded, giveBack: async () => {} } };
    await offer('a1', 'b1');
    expect(sent).to.deep.equal(['b1']);
    expect(scheduler.attempts).to.deep.equal({ sending: 1, limit: 1, held: 2 });
    record();
    await turn();
    expect(scheduler.attempts.held).to.equal(1);
  });

  it('gives an attempt back that finds no place in time, and claims nothing ahead for its webhook any more', async () => {
    const { offer, givenBack, sent, hasRoom, end } = start({ maxWait: 20 });
    await offer('a1', 'a2', 'a3');
    await until(() => givenBack.length > 0);
    expect(givenBack).to.deep.equal(['a3']);
    expect(hasRoom('a')).to.equal(false);
    expect(sent).to.deep.equal(['a1', 'a2']);
    await end('a1');

    expect(await offer('a4', 'a5', 'a6', 'a7'), 'a place, and hardly more').to.have.length.within(1, 2);
  });

  it('frees the room of an attempt that could not be claimed', async () => {
    const { scheduler, offer, next, hasRoom } = start();
    next.prepared = { ready: null };
    expect(await offer('a1')).to.deep.equal(['a1']);

    expect([hasRoom('a'), scheduler.attempts.held]).to.deep.equal([true, 0]);
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3']);
  });

  it('starts nothing after it closes, gives waiting attempts back, and waits for running ones', async () => {
    const { scheduler, offer, due, turn, sent, givenBack, recorded, prepared, end } = start({ concurrency: 1 });
    await offer('a1', 'b1');
    let closed = false;
    const closing = scheduler.close().then(() => {
      closed = true;
    });
    expect(await offer('c1')).to.deep.equal([]);
    await due('d1');
    await turn();
    expect([closed, givenBack]).to.deep.equal([false, ['b1']]);
    await end('a1');
    await closing;

    expect([sent, recorded, prepared]).to.deep.equal([['a1'], ['a1'], ['a1', 'b1']]);
  });

  it('begins nothing before it has started', async () => {
    const idle = new Scheduler({
      concurrency: 4,
      concurrencyPerAccount: 4,
      concurrencyPerWebhook: 2,
      attempts: { prepare: () => expect.fail('claimed'), prepareFirst: () => expect.fail('begun') },
      due: { ofWebhooks: () => expect.fail('read') },
      logger: { warn: () => expect.fail('warned') },
    });
    idle.look(refOf('a1'));
    expect(idle.first(refOf('a1'), () => expect.fail('begun'))).to.equal('no room');
    // longer than a read that it would begin
    await sleep(5);

    expect([idle.isWorking, idle.hasRoom(refOf('a1'))]).to.deep.equal([false, false]);
  });

  it('sends no more at once to an account than its share, and to a new account at once', async () => {
    const { offer, sent } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    await offer('Xa1', 'Xa2', 'Xb1', 'Xc1', 'Xd1');
    expect(sent).to.deep.equal(['Xa1', 'Xb1']);
    await offer('Ya1');

    expect(sent).to.deep.equal(['Xa1', 'Xb1', 'Ya1']);
  });

  it('holds no more of an account than its share and what may be claimed ahead', async () => {
    const { offer, hasRoom } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    const ids = [...'abcdefghijkl'].map((name) => `X${name}1`);

    expect(await offer(...ids)).to.deep.equal(ids.slice(0, 10));
    expect([hasRoom('Xz'), hasRoom('Ya')]).to.deep.equal([false, true]);
  });

  it('serves accounts in turn, however many attempts one of them has waiting', async () => {
    const { offer, sent, end } = start({ concurrency: 2, concurrencyPerWebhook: 1 });
    await offer('Xa1', 'Xb1', 'Xc1', 'Xd1', 'Ya1', 'Yb1');
    await end('Xa1', 'Xb1', 'Xc1', 'Ya1');

    expect(sent).to.deep.equal(['Xa1', 'Xb1', 'Xc1', 'Ya1', 'Xd1', 'Yb1']);
  });

  it('leaves places to a healthy webhook when others of its account hang', async () => {
    const { offer, sent, givenBack, end } = start({
      concurrency: 100,
      concurrencyPerAccount: 8,
      concurrencyPerWebhook: 8,
      maxWait: 20,
    });
    const hanging = await offer(...deliveriesOf('Xa', 8), ...deliveriesOf('Xb', 8));
    expect(sent).to.have.length.below(8);
    await until(() => givenBack.length + sent.length === hanging.length);
    for (const id of ['Xc1', 'Xc2']) {
      await offer(id);
      expect(sent.at(-1)).to.equal(id);
      await end(id);
    }
  });
});

describe('First attempts that wait for room', () => {
  /** Three of the webhook `a` have begun: its two places, and half of the two that may be claimed ahead. */
  async function startFull(choices = {}) {
    const scene = start({ concurrency: 8, ...choices });
    expect(await scene.offer('a1', 'a2', 'a3')).to.have.length(3);
    return scene;
  }

  it('begin in the order in which they came, as many as there is room for', async () => {
    const { begin, prepared, turn, end, endAll } = await startFull();
    const outcomes: string[] = [];
    for (const id of ['a4', 'a5', 'a6', 'a7', 'a8']) {
      const waiting = begin(id);
      if (typeof waiting === 'string') expect.fail(waiting);
      void waiting.then((hasBegun) => outcomes.push(`${id} ${hasBegun}`));
    }
    await turn();
    expect([prepared.length, outcomes]).to.deep.equal([3, []]);
    await end('a1');
    await turn();
    expect(prepared.length).to.be.within(4, 7);
    expect(prepared).to.deep.equal(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8'].slice(0, prepared.length));
    expect(outcomes).to.deep.equal(prepared.slice(3).map((id) => `${id} true`));
    await endAll();
    expect(prepared).to.deep.equal(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8']);
  });

  it('let none that came later begin before them', async () => {
    const { begin, next, prepared, end, turn, endAll } = await startFull();
    void begin('a4');
    // the room of an attempt that has nothing to send goes to the one that waits
    next.prepared = { ready: null };
    await end('a1');
    const late = begin('a5');
    await turn();
    await endAll();
    expect(prepared.slice(3)).to.deep.equal(['a4', 'a5']);
    expect(late).not.to.equal('no room');
  });

  it('are limited in number, and belong only to webhooks that have attempts under way', async () => {
    const { begin, offer, endAll } = await startFull();
    const waiting = Array.from({ length: 42 }, (_, i) => begin(`a${i + 4}`));
    expect(waiting.slice(0, 40).filter((one) => typeof one === 'string')).to.deep.equal([]);
    expect(waiting.slice(40)).to.deep.equal(['no room', 'no room']);
    expect(await offer('b1')).to.deep.equal(['b1']);
    await endAll();
  });

  it('do not wait where a stored delivery of their webhook is due', async () => {
    const { begin, due, endAll } = await startFull();
    await due('a4');
    expect(begin('a5')).to.equal('no room');
    await endAll();
  });

  it('do not begin after their maximum wait', async () => {
    const { begin, end, prepared } = await startFull({ maxWait: 20 });
    expect(await begin('a4')).to.equal(false);
    await end('a1');

    expect(prepared).not.to.include('a4');
  });

  it('do not begin when the lease of their event has become too short', async () => {
    const { scheduler, begin, end, prepared, turn } = await startFull();
    const short = scheduler.first(refOf('a4'), () => null);
    const after = begin('a5');
    await end('a1');
    await turn();
    expect([typeof short, typeof after]).to.deep.equal(['object', 'object']);
    expect(prepared).not.to.include('a4');
  });

  it('all end when the scheduler closes, and none can wait after that', async () => {
    const { scheduler, begin, prepared, end, endAll } = await startFull();
    const waiting = [begin('a4'), begin('a5')];
    const closing = scheduler.close();

    expect(await Promise.all(waiting)).to.deep.equal([false, false]);
    await end('a1');
    expect(begin('a6')).to.equal('no room');
    await endAll();
    await closing;
    expect(prepared).to.deep.equal(['a1', 'a2', 'a3']);
  });
});

describe('Stored attempts that are due', () => {
  it('are claimed for each webhook as far as it has room, however much another one has due', async () => {
    const { due, stored, scheduler, prepared, reads, turn, endAll } = start({ concurrency: 100 });
    stored.push(...deliveriesOf('hanging', 10_000));
    await due('healthy1', 'healthy2', 'healthy3');
    scheduler.look(refOf('hanging'));
    await turn();

    expect(prepared.filter((id) => id.startsWith('hanging'))).to.have.length(4);
    expect(prepared.filter((id) => id.startsWith('healthy'))).to.have.length(3);
    expect(reads.length).to.be.below(5);
    stored.length = 0;
    await endAll();
  });

  it('are claimed when places are freed; a webhook that has nothing left is not read', async () => {
    const { due, prepared, reads, end, endAll } = start({ concurrency: 100, concurrencyPerWebhook: 1 });
    await due('a1', 'a2', 'a3');
    expect(prepared).to.deep.equal(['a1', 'a2']);
    await end('a1', 'a2');
    expect(prepared).to.deep.equal(['a1', 'a2', 'a3']);
    const before = reads.length;
    await endAll();

    expect(reads).to.have.length(before);
  });

  it('of other webhooks are claimed when one that has nothing left frees the room that they waited for', async () => {
    const { offer, due, prepared, reads, endAll } = start({ concurrency: 2 });
    await offer('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1');
    await due('Xa1');
    expect([prepared.includes('Xa1'), reads]).to.deep.equal([false, []]);
    await endAll();

    expect(prepared).to.include('Xa1');
  });

  it('learn their account from the first read', async () => {
    const { scheduler, stored, prepared, turn, endAll } = start({ concurrency: 8, concurrencyPerAccount: 2 });
    const ids = [...'abcdefghijkl'].map((name) => `X${name}1`);
    stored.push(...ids);
    for (const id of ids) scheduler.look({ webhookId: refOf(id).webhookId });
    await turn();
    expect(prepared).to.deep.equal(ids.slice(0, 10));
    await endAll();
    expect(prepared).to.deep.equal(ids);
  });

  it('are looked for again when more became due during a read', async () => {
    const { due, scheduler, reads, prepared, endAll } = start({ concurrency: 100 });
    await due('a1');
    scheduler.look(refOf('a'));
    await due('a2');
    expect(prepared).to.deep.equal(['a1', 'a2']);
    expect(reads.length).to.be.within(2, 6);
    await endAll();
  });

  it('are claimed with the next sweep after a read that failed, which is logged', async () => {
    const { scheduler, due, turn, database, warnings, prepared, endAll } = start();
    database.isAway = true;
    await due('a1');
    expect(warnings).to.have.length(1);
    database.isAway = false;
    scheduler.resume();
    await turn();

    expect(prepared).to.deep.equal(['a1']);
    await endAll();
  });

  it('are left alone after three reads of which nothing could be claimed, until the next sweep', async () => {
    const { scheduler, offer, reads, turn, endAll, stored } = start();
    await offer('a1', 'a2');
    // their leases have lapsed although they are under way here
    stored.push('a1', 'a2');
    scheduler.look(refOf('a1'));
    await turn();
    expect(reads).to.have.length(3);
    scheduler.resume();
    await turn();
    await turn();
    expect(reads).to.have.length(6);
    stored.length = 0;
    await endAll();
  });

  it('that become due soon are held until then, however often they are found, and claimed without a read', async () => {
    const { scheduler, stored, reads, prepared, endAll } = start();
    stored.push('a1', 'b1');
    const askedAt = performance.now();
    for (let i = 0; i < 2; i += 1) scheduler.expect(['b1', 'a1'].map((id) => ({ ...refOf(id), wait: 30 })));
    await until(() => prepared.length > 0);

    expect(performance.now() - askedAt).to.be.at.least(30);
    await until(() => prepared.length === 2);
    // two timers that end at the same time may be rounded to two milliseconds
    expect([prepared.toSorted(), reads]).to.deep.equal([['a1', 'b1'], []]);
    await endAll();
    expect(prepared).to.have.length(2);
  });

  it('that follow soon on one that was recorded are held', async () => {
    const { scheduler, due, next, prepared, end, endAll, stored } = start();
    next.following = { ...refOf('a1'), attempt: 2, wait: 20 };
    await due('a1');
    stored.push('a1');
    await end('a1');
    await until(() => prepared.length === 2);

    expect(prepared).to.deep.equal(['a1', 'a1']);
    await until(() => scheduler.attempts.sending === 1);
    await endAll();
  });

  it('that become due take their turn when others have been due for longer, or there is no room', async () => {
    const { scheduler, due, stored, reads, prepared, endAll } = start({ concurrency: 1, concurrencyPerWebhook: 1 });
    await due(...Array.from({ length: 20 }, (_, i) => `a${i + 1}`));
    const before = prepared.length;
    const readBefore = reads.length;
    stored.push('b1');
    scheduler.expect([{ ...refOf('b1'), wait: 0 }]);
    // a timer that is set later, for longer, ends later: the attempt has become due
    await sleep(5);
    await endAll();
    await until(() => prepared.includes('b1'));

    expect(prepared.indexOf('b1')).to.be.at.least(before);
    expect(reads.slice(readBefore).some((shares) => 'b' in shares)).to.equal(true);
    await endAll();
  });

  it('are held no more when the process closes', async () => {
    const { scheduler, stored, prepared } = start();
    stored.push('a1');
    scheduler.expect([{ ...refOf('a1'), wait: 10 }]);
    await scheduler.close();
    scheduler.expect([{ ...refOf('a1'), wait: 10 }]);
    // shows that nothing happens
    await sleep(50);

    expect(prepared).to.deep.equal([]);
  });

  it('of a webhook that its rate limit holds back are claimed when the pause ends', async () => {
    const { due, stored, next, prepared, reads, turn, endAll } = start();
    const wait = 60_000;
    next.prepared = { ready: null, limit: { perSecond: 2, wait } };
    const clock = new HeldClock(1_000);
    try {
      const askedAt = performance.now();
      await due('a1');
      await turn();
      const before = reads.length;
      stored.push('a2');
      clock.turn(askedAt + wait - performance.now() - 1);
      await turn();
      expect(reads).to.have.length(before);
      clock.turn(askedAt + wait + 1_000 - performance.now());
      await turn();
      expect(prepared).to.deep.equal(['a1', 'a2']);
    } finally {
      clock.release();
    }
    await endAll();
  });

  it('are sent when their permit begins', async () => {
    const { due, next, ready, sent, scheduler, endAll } = start();
    next.prepared = { ready: ready('a1'), limit: { perSecond: 2, wait: 40 } };
    const askedAt = performance.now();
    await due('a1');
    expect(scheduler.attempts).to.include({ sending: 0, held: 1 });
    await until(() => sent.length === 1);

    expect(performance.now() - askedAt).to.be.at.least(39);
    await endAll();
  });

  it('are not claimed any more after the scheduler has closed', async () => {
    const { scheduler, due, prepared } = start();
    await scheduler.close();
    await due('a1');
    scheduler.resume();
    // longer than a read that it would begin
    await sleep(5);

    expect(prepared).to.deep.equal([]);
  });
});
