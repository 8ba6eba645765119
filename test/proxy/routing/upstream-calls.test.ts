import { expect } from 'chai';
import fc from 'fast-check';
import { CallPlace, UpstreamCalls } from '../../../src/proxy/upstream-state.ts';

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
