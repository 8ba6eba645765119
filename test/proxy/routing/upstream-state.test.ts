import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import type { OutboundResponse } from '../../../src/outbound/exchange.ts';
import { OutboundError, outboundError } from '../../../src/outbound/outbound-error.ts';
import { AwaitedResponses, Breaker, CallPlace, StreamUsage, UpstreamCalls } from '../../../src/proxy/upstream-state.ts';

describe('The breaker of an upstream', () => {
  const answer = (status: number) => async () => ({ status }) as OutboundResponse;
  const fail = (code: Parameters<typeof outboundError>[0]) => async (): Promise<OutboundResponse> => {
    throw outboundError(code);
  };

  /** Makes a call through the breaker; answers `undefined` where it is kept away. */
  async function run(breaker: Breaker, userId: string, call: () => Promise<OutboundResponse>) {
    const passed = breaker.begin(userId);
    if (!passed) return undefined;
    const result = await call().then(
      (response) => ({ response }),
      (error: unknown) => ({ error }),
    );
    passed.ended(result);
    return result;
  }

  async function isKeptAway(running: ReturnType<typeof run>): Promise<boolean> {
    return (await running) === undefined;
  }

  for (const [what, call] of [
    ['answered with an error of the server', answer(500)],
    ['not answered in time', fail('timeout')],
    ['broken off', fail('reset')],
  ] as const) {
    it(`blocks an account whose requests are ${what} five times, and no other account`, async () => {
      const breaker = new Breaker();
      for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_bad', call);

      expect(await isKeptAway(run(breaker, 'usr_bad', answer(200)))).to.equal(true);
      expect(await isKeptAway(run(breaker, 'usr_2', answer(200)))).to.equal(false);
    });
  }

  it('blocks every account when no connection can be made, whoever asked', async () => {
    const breaker = new Breaker();
    for (let i = 0; i < 5; i += 1) await run(breaker, `usr_${i}`, fail('connect_refused'));

    expect(await isKeptAway(run(breaker, 'usr_new', answer(200)))).to.equal(true);
  });

  it('gives every passed call its own answer, however many fail at the same time', async () => {
    const breaker = new Breaker();
    const calls = Array.from({ length: 12 }, (_, i) =>
      run(breaker, 'usr_1', async () => {
        for (let turn = 0; turn < i; turn += 1) await nextTurn();
        return { status: 500 } as OutboundResponse;
      }),
    );

    const statuses = (await Promise.all(calls)).map(
      (result) => result && 'response' in result && result.response.status,
    );
    expect(statuses).to.deep.equal(Array(12).fill(500));
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(true);
  });

  it('counts only failures in a row', async () => {
    const breaker = new Breaker();
    for (let i = 0; i < 12; i += 1) await run(breaker, 'usr_1', answer(i % 4 === 3 ? 200 : 500));

    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(false);
  });

  it('lets one call of a blocked account try again after a second, and keeps the others away meanwhile', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', answer(500));
    now = 1_000;
    const trial = breaker.begin('usr_1');
    expect([typeof trial, breaker.begin('usr_1')]).to.deep.equal(['object', undefined]);
    expect(await isKeptAway(run(breaker, 'usr_2', answer(200)))).to.equal(false);
    trial?.ended({ response: { status: 200 } });
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(false);
  });

  it('is closed by any response when it was open because of connections, which it says', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', fail('dns_failed'));
    expect(breaker.state).to.equal('open');
    now = 1_000;
    const trial = breaker.begin('usr_2');
    expect(breaker.state).to.equal('half_open');
    trial?.ended({ response: { status: 500 } });
    expect(breaker.state).to.equal('closed');
  });

  it('is closed by a connection when it was open because of connections, however long the answer takes', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', fail('connect_refused'));
    now = 1_000;
    const trial = breaker.begin('usr_2');
    expect(await isKeptAway(run(breaker, 'usr_3', answer(200)))).to.equal(true);
    trial?.connected();
    expect(breaker.state).to.equal('closed');
    expect(await isKeptAway(run(breaker, 'usr_3', answer(200)))).to.equal(false);
    trial?.ended({ error: outboundError('timeout') });
    expect(breaker.state).to.equal('closed');
  });

  it('is not closed for an account by a connection when it was open because of its requests', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', answer(500));
    now = 1_000;
    breaker.begin('usr_1')?.connected();
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(true);
  });
});

describe('a circuit', () => {
  type Passed = NonNullable<ReturnType<Breaker['begin']>>;
  const user = 'usr_1';
  const results: Readonly<Record<string, Parameters<Passed['ended']>[0]>> = {
    S: { response: { status: 200 } },
    F: { response: { status: 500 } },
    N: { error: outboundError('aborted') },
  };

  function start() {
    const clock = { now: 0 };
    const breaker = new Breaker(() => clock.now);
    /** Begins a call, which must be let through. */
    const begin = () => breaker.begin(user) ?? expect.fail('the call is kept away');
    return {
      clock,
      begin,
      call: (outcome: string) => begin().ended(results[outcome] ?? {}),
      ends: (hasFailed: boolean) => breaker.countEnd(user, hasFailed),
      isKeptAway: () => breaker.begin(user) === undefined,
      /** What calls that begin now and later tell of it: asked last, for they are under way. */
      state(): 'closed' | 'open' | 'half_open' {
        if (breaker.begin(user)) return breaker.begin(user) ? 'closed' : 'open';
        clock.now += 60_000;
        return breaker.begin(user) ? 'open' : 'half_open';
      },
    };
  }

  /** What happens, one letter each: a success or failure, one after the beginning (end), a call that says nothing, or a wait in seconds. */
  const table: [events: string, state: string, meaning: string][] = [
    ['FFFF', 'closed', 'four failures'],
    ['FFFFF', 'open', 'five failures'],
    ['FFFFSF', 'closed', 'a success between failures'],
    ['FFFFNF', 'open', 'a call between failures that says nothing of the upstream'],
    ['LLLLL', 'open', 'five failures after a good beginning'],
    ['SLSLSLSLSL', 'open', 'the good beginnings of answers that fail later'],
    ['SLSLSLSLWL', 'closed', 'an answer that has ended well between them'],
    ['FFFFW', 'closed', 'an end that is no success where no failure came late'],
    ['FFFFWF', 'open', 'the same, and one more failure'],
    ['FFFFF1S', 'closed', 'a success of the call that tries again'],
    ['FFFFF1SFFFF', 'closed', 'four failures after that'],
    ['FFFFF1F', 'open', 'a failure of that call'],
    ['FFFFF1N', 'closed', 'that call says nothing'],
    ['FFFFF1NF', 'open', 'and the next one fails'],
  ];
  for (const [events, state, meaning] of table) {
    it(`is ${state} after ${meaning} (${events})`, () => {
      const circuit = start();
      for (const event of events) {
        if (/\d/.test(event)) circuit.clock.now += 1_000 * Number(event);
        else if (event === 'L' || event === 'W') circuit.ends(event === 'L');
        else circuit.call(event);
      }
      expect(circuit.state()).to.equal(state);
    });
  }

  it('stays open for 1 s, and after each failed trial twice as long, up to 30 s', () => {
    const circuit = start();
    const { clock } = circuit;
    for (let i = 0; i < 5; i += 1) circuit.call('F');
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      clock.now += seconds * 1_000 - 1;
      expect(circuit.isKeptAway()).to.equal(true);
      clock.now += 1;
      const trial = circuit.begin();
      expect(circuit.isKeptAway(), 'one call at a time').to.equal(true);
      trial.ended({ response: { status: 500 } });
    }
    clock.now += 30_000;
    circuit.call('S');
    for (let i = 0; i < 5; i += 1) circuit.call('F');
    expect(circuit.isKeptAway()).to.equal(true);
    clock.now += 1_000;
    expect(circuit.isKeptAway(), 'from the beginning').to.equal(false);
  });

  it('does not count what began before it opened', () => {
    const circuit = start();
    const begun = Array.from({ length: 8 }, circuit.begin);
    const end = (outcome: string) => begun.pop()?.ended(results[outcome] ?? {});
    for (let i = 0; i < 5; i += 1) end('F');
    end('S');
    expect(circuit.isKeptAway()).to.equal(true);
    circuit.clock.now = 1_000;
    circuit.begin();
    end('F');
    circuit.ends(false);
    end('S');
    expect(circuit.state()).to.equal('half_open');
  });
});

describe('The calls under way to an upstream', () => {
  /** Begins calls of an account until one is refused; answers how many there were, and the refusal. */
  function fill(calls: UpstreamCalls, userId: string) {
    for (let count = 0; ; count += 1) {
      const refusal = calls.enter(userId);
      if (refusal) return { count, refusal };
    }
  }

  it('are limited to two thirds of the places for one account, and of the rest for each next one', () => {
    const calls = new UpstreamCalls(300);
    const counts = ['a', 'b', 'c', 'd', 'e'].map((userId) => fill(calls, userId).count);
    expect(counts).to.deep.equal([200, 66, 22, 8, 2]);
    expect(calls.enter('new')).to.equal(undefined);
  });

  it('are refused as rate_limit_exceeded beyond the share of an account, and as overloaded when all places are taken', () => {
    const calls = new UpstreamCalls(4);
    const { count, refusal } = fill(calls, 'a');
    expect([count, refusal.code, refusal.headers['retry-after']]).to.deep.equal([2, 'rate_limit_exceeded', '1']);
    expect(refusal.message).to.match(/^This account already has 2 model calls under way/);
    fill(calls, 'b');
    fill(calls, 'c');
    const full = calls.enter('d');
    expect([full?.code, full?.headers['retry-after']]).to.deep.equal(['overloaded', '1']);
  });

  it('spread evenly over two accounts as calls end', () => {
    const calls = new UpstreamCalls(300);
    const held = { a: fill(calls, 'a').count, b: fill(calls, 'b').count };
    for (let turn = 0; turn < 1_000; turn += 1) {
      for (const userId of ['a', 'b'] as const) {
        calls.leave(userId);
        held[userId] -= 1;
        for (const next of ['b', 'a'] as const) held[next] += fill(calls, next).count;
      }
    }
    expect(Math.abs(held.a - held.b)).to.be.below(5);
  });

  it('never exceed the limit, and leave every place free at the end, in any order', () => {
    const step = fc.record({ call: fc.nat(19), upstream: fc.nat(3), ends: fc.boolean() });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 300 }), (limit, steps) => {
        const upstreams = Array.from({ length: 3 }, () => new UpstreamCalls(limit));
        const places = Array.from({ length: 20 }, (_, i) => new CallPlace(`usr_${i % 6}`));
        const at = new Map<number, number>();
        for (const { call, upstream, ends } of steps) {
          const calls = upstreams[upstream];
          const present = [...at].filter(([, one]) => one === upstream);
          if (ends || !calls) {
            places[call]?.release();
            at.delete(call);
          } else if (!places[call]?.moveTo(calls)) {
            at.set(call, upstream);
          } else if (!present.some(([other]) => other % 6 === call % 6)) {
            expect(present, 'an account without a call is refused at a full upstream only').to.have.length(limit);
          }
          for (const i of upstreams.keys()) {
            expect([...at.values()].filter((one) => one === i).length).to.be.at.most(limit);
          }
        }
        for (const place of places) place.release();
        expect(upstreams.map((calls) => fill(calls, 'usr_0').count)).to.deep.equal(
          Array(3).fill(Math.max(1, Math.floor((limit * 2) / 3))),
        );
      }),
      { numRuns: 200 },
    );
  });
});

const minute = 60_000;

describe('An upstream that is asked for responses', () => {
  let now = 0;
  let awaited: AwaitedResponses;
  let calls: { readonly answer: () => void; readonly fail: (code: string) => void }[];

  beforeEach(() => {
    now = 0;
    awaited = new AwaitedResponses(10 * minute, () => now);
    calls = [];
  });

  function call(count: number): void {
    for (let i = 0; i < count; i += 1) {
      awaited.sent();
      calls.push({
        answer: () => awaited.answered(),
        fail: (code) => awaited.failed(new OutboundError(code as never, code)),
      });
    }
  }

  it('hangs once five calls have waited for five minutes, and no longer when one is answered', () => {
    call(4);
    now = 6 * minute;
    expect([awaited.waiting, awaited.isHanging]).to.deep.equal([4, false]);
    call(1);
    expect(awaited.isHanging).to.equal(true);
    calls[2]?.answer();
    call(3);
    expect([awaited.waiting, awaited.isHanging]).to.deep.equal([7, false]);
    now += 5 * minute;
    expect(awaited.isHanging).to.equal(true);
  });

  it('does not hang before five minutes without a response are over, however many wait', () => {
    call(100);
    now = 5 * minute - 1;
    expect(awaited.isHanging).to.equal(false);
    now += 1;
    expect(awaited.isHanging).to.equal(true);
  });

  it('hangs on while calls are given up, until one is answered', () => {
    awaited = new AwaitedResponses(4_000, () => now);
    call(5);
    now = 4_000;
    for (const { fail } of calls) fail('timeout');
    expect([awaited.waiting, awaited.isHanging]).to.deep.equal([0, true]);
    // without calls nobody knows
    now += 15 * minute;
    expect(awaited.isHanging).to.equal(false);
    call(1);
    calls[5]?.answer();
    expect(awaited.isHanging).to.equal(false);
  });

  it('does not hang because clients leave or connections fail', () => {
    call(5);
    now = 9 * minute;
    for (const { fail } of calls) fail('aborted');
    call(5);
    expect([awaited.waiting, awaited.isHanging]).to.deep.equal([5, false]);
  });
});

describe('the usage that a stream tells', () => {
  it('remembers of each upstream which models tell it, a thousand at most, each until it refuses', () => {
    const streamUsage = new StreamUsage(true);
    for (let i = 0; i <= 1_000; i += 1) streamUsage.accepted(`m${i}`);
    const remembers = () => ['m0', 'm1', 'm1000'].map((model) => streamUsage.hasAccepted(model));
    expect(remembers()).to.deep.equal([false, true, true]);
    streamUsage.refused('m1000');
    expect(remembers()).to.deep.equal([false, true, false]);
  });

  it('is asked for again an hour after the refusal', () => {
    let now = 0;
    const streamUsage = new StreamUsage(true, () => now);
    expect(streamUsage.isAskedFor('m')).to.equal(true);
    expect([streamUsage.refused('m'), streamUsage.isAskedFor('m')]).to.deep.equal([true, false]);
    now = 3_599_999;
    expect(streamUsage.isAskedFor('m')).to.equal(false);
    now = 3_600_000;
    expect([streamUsage.isAskedFor('m'), streamUsage.refused('m')]).to.deep.equal([true, false]);
    expect(new StreamUsage(false).isAskedFor('m')).to.equal(false);
  });
});
