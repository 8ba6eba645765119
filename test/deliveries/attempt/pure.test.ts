import { expect } from 'chai';
import { adviceFor, type FailureCode, failures } from '../../../src/deliveries/attempt/failures.ts';
import { failureOf } from '../../../src/deliveries/attempt/outcome.ts';
import { attemptsAllowed, delayAfter } from '../../../src/deliveries/attempt/retry-delay.ts';
import { eventState } from '../../../src/deliveries/lists/event-statuses.ts';
import { defaultRetryDelays } from '../../../src/options/options.ts';

describe('The schedule', () => {
  it('makes the first attempt at once, then waits 1, 5 and 30 minutes, 2 and 8 hours after the attempt before', () => {
    const minutes = [1, 2, 3, 4, 5].map((attempt) => delayAfter(attempt, defaultRetryDelays) / 60_000);

    expect(minutes).to.deep.equal([1, 5, 30, 120, 480]);
    expect(attemptsAllowed(defaultRetryDelays, false)).to.equal(6);
  });

  it('gives a test event one attempt', () => {
    expect(attemptsAllowed(defaultRetryDelays, true)).to.equal(1);
  });

  it('repeats the last delay when a delivery has more attempts than there are delays now', () => {
    expect(delayAfter(5, [10, 20])).to.equal(20);
    expect(delayAfter(1, [])).to.equal(0);
  });
});

describe('The outcome of an attempt', () => {
  const came = { durationMs: 1, response: '' };
  const table: [string, Parameters<typeof failureOf>[0], FailureCode | null][] = [
    ['a 200 succeeds', { ...came, status: 200 }, null],
    ['a 204 succeeds', { ...came, status: 204 }, null],
    ['a 299 succeeds', { ...came, status: 299 }, null],
    ['a 300 fails', { ...came, status: 300 }, 'http_300'],
    ['a 301 fails as a redirect', { ...came, status: 301 }, 'redirect'],
    ['a 307 fails as a redirect', { ...came, status: 307 }, 'redirect'],
    ['a 304 fails', { ...came, status: 304 }, 'http_304'],
    ['a 404 fails', { ...came, status: 404 }, 'http_404'],
    ['a 500 fails', { ...came, status: 500 }, 'http_500'],
    ['a time-out fails', { ...came, error: 'timeout' }, 'timeout'],
    ['a connection that ends without an answer fails', { ...came, error: 'reset' }, 'reset'],
  ];
  for (const [what, result, failure] of table) {
    it(what, () => expect(failureOf(result)).to.equal(failure));
  }
});

describe('The state of an event', () => {
  const table = [
    [['delivered', 'failed', 'pending'], 'failed'],
    [['delivered', 'pending'], 'pending'],
    [['canceled', 'pending'], 'pending'],
    [['delivered', 'canceled'], 'delivered'],
    [['canceled', 'canceled'], 'canceled'],
    [[], 'delivered'],
  ] as const;
  for (const [states, state] of table) {
    it(`is ${state} when its deliveries are ${states.join(', ') || 'none'}`, () => {
      expect(eventState(states.map((one) => ({ state: one })))).to.equal(state);
    });
  }
});

describe('Every failure code', () => {
  it('has an explanation and a remedy for the owner of the receiver', () => {
    for (const code of [...Object.keys(failures), 'http_418'] as FailureCode[]) {
      const { meaning, remedy } = adviceFor(code);
      expect(meaning, code).to.match(/^[A-Z].+\.$/);
      expect(remedy, code).to.match(/^[A-Z].+\.$/);
    }
  });
});
