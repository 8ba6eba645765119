import { expect } from 'chai';
import { OutboundError } from '../../../src/outbound/outbound-error.ts';
import { AwaitedResponses } from '../../../src/proxy/upstream-state.ts';

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
