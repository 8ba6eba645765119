import { expect } from 'chai';
import { createSweepCursor } from '../../src/deliveries/due-reads.ts';
import { adviceFor, type FailureAdvice, failures } from '../../src/deliveries/failures.ts';
import { attemptsAllowed, delayAfter, nextAfter } from '../../src/deliveries/retry.ts';
import { defaultRetryDelays } from '../../src/index.ts';
import { documentText } from '../documentation/documents.ts';
import { type SpecSchema, spec } from '../support/openapi.ts';
import { misfits, resolved } from '../support/spec.ts';

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

describe('The schedule where Retry-After is honored', () => {
  const endedAt = Date.parse('2026-01-01T00:00:00.250Z');
  const day = 24 * 3_600_000;
  const table: [retryAfter: string | undefined, delay: number, expected: number, what: string][] = [
    [undefined, 60_000, 60_000, 'keeps its delay without one'],
    ['120', 60_000, 120_000, 'waits for so many seconds'],
    [' 120 ', 60_000, 120_000, 'waits for so many seconds'],
    ['0.5', 20, 500, 'waits for half a second'],
    ['30', 60_000, 60_000, 'is never earlier'],
    ['0', 60_000, 60_000, 'is never earlier'],
    ['86400', 60_000, day, 'waits for a day'],
    ['86401', 60_000, day, 'waits for no more than a day'],
    ['9'.repeat(99), 60_000, day, 'waits for no more than a day'],
    ['86401', 2 * day, 2 * day, 'keeps a delay that is longer than a day'],
    ['Thu, 01 Jan 2026 00:02:00 GMT', 60_000, 119_750, 'waits until a date'],
    ['Thursday, 01-Jan-26 00:02:00 GMT', 60_000, 119_750, 'waits until a date of RFC 850'],
    ['Thu Jan  1 00:02:00 2026', 60_000, 119_750, 'waits until a date of asctime, in UTC'],
    ['Wed, 31 Dec 2025 23:00:00 GMT', 60_000, 60_000, 'is never earlier than a date in the past'],
    ['Fri, 01 Jan 2027 00:00:00 GMT', 60_000, day, 'waits for no more than a day'],
    ...['', 'soon', '-5', '1e9', '5 minutes', '2026-01-02', 'Infinity', '0x10', 'Thu, 99 Foo 2026'].map(
      (text): [string, number, number, string] => [text, 60_000, 60_000, 'keeps its delay'],
    ),
  ];
  for (const [retryAfter, delay, expected, what] of table) {
    it(`${what}: ${retryAfter?.slice(0, 40)} after a delay of ${delay} ms`, () => {
      const claim = {
        delivery: { attempt: 1, maxAttempts: 2 },
        claimedAt: { time: new Date(endedAt - 300), monotonic: 0 },
      } as Parameters<typeof nextAfter>[0];
      const result = {
        code: 'http_503',
        durationMs: 300,
        response: '',
        ...(retryAfter !== undefined && { retryAfter }),
      } as const;
      const rules = { retryDelays: [delay], honorRetryAfter: true };
      expect(nextAfter(claim, result, rules)).to.deep.equal({ retryIn: expected });
    });
  }
});

describe('Every failure code', () => {
  it('has an explanation and a remedy for the owner of the receiver', () => {
    for (const code of [...Object.keys(failures), 'http_418']) {
      const { meaning, remedy } = adviceFor(code);
      expect(meaning, code).to.match(/^[A-Z].+\.$/);
      expect(remedy, code).to.match(/^[A-Z].+\.$/);
    }
  });
});

const place = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: 'wh_1' });
const from = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: '' });

describe('The sweep of due attempts', () => {
  it('starts at the beginning each time when one page holds all', () => {
    const cursor = createSweepCursor(() => 0);
    for (let i = 0; i < 3; i += 1) {
      expect(cursor.begin()).to.equal(null);
      cursor.reached(null);
    }
  });

  it('continues page after page', () => {
    const cursor = createSweepCursor(() => 0);
    cursor.begin();
    cursor.reached(place(100));
    expect(cursor.begin()).to.deep.equal(place(100));
    cursor.reached(place(200));
    expect(cursor.begin()).to.deep.equal(place(200));
  });

  it('then starts shortly before the last page, and for ten seconds skips what lies long before it', () => {
    let time = 0;
    const cursor = createSweepCursor(() => time);
    cursor.begin();
    cursor.reached(place(100));
    cursor.begin();
    cursor.reached(null);
    time = 9_999;
    expect(cursor.begin()).to.deep.equal(from(95));
    cursor.reached(place(150));
    cursor.begin();
    cursor.reached(null);
    expect(cursor.begin()).to.deep.equal(from(145));
    cursor.reached(null);
    time = 10_000;
    expect(cursor.begin()).to.equal(null);
  });
});

const schema = spec.components.schemas.DeliveryErrorCode as { type: string; $defs: Record<string, SpecSchema> };
const { Known, ByStatus } = schema.$defs;
const named = resolved(Known) as { enum: string[]; 'x-enumDescriptions': Record<string, string> };
const byStatus = resolved(ByStatus) as { description: string; pattern: string };
const webhooks = documentText('docs/webhooks.md');
const { 'http_<status>': statusFailure, ...namedFailures } = failures;
const inWords = ({ meaning, remedy }: FailureAdvice) => `${meaning} ${remedy}`;

describe('the codes of failed deliveries', () => {
  it('are in openapi.yaml as the package has them, each with what it means and what to do', () => {
    const expected = Object.entries(namedFailures).map(([code, advice]) => [code, inWords(advice)]);
    expect(named.enum).to.deep.equal(Object.keys(namedFailures));
    expect(Object.entries(named['x-enumDescriptions'])).to.deep.equal(expected);
    expect(byStatus.description).to.equal(inWords(statusFailure));
  });

  for (const [code, advice] of Object.entries(failures)) {
    it(`are in docs/webhooks.md: ${code}`, () => {
      expect(webhooks).to.include(`| \`${code}\` | ${advice.meaning} | ${advice.remedy} |`);
    });
  }

  it('include every status that is not 2xx, and nothing that is not listed', () => {
    const listed = { anyOf: [Known, ByStatus] };
    for (const code of [...Object.keys(namedFailures), 'http_100', 'http_404', 'http_500', 'http_999']) {
      expect(misfits(listed, code), code).to.equal('');
    }
    for (const code of ['', 'http_', 'http_2000', 'http_abc', 'HTTP_500', 'ECONNRESET']) {
      expect(misfits(listed, code), code).to.not.equal('');
    }
  });

  it('may be others in a client that is older than the gateway', () => {
    expect(misfits(schema, 'quic_failed')).to.equal('');
  });

  it('have advice of their own, and every status has the same', () => {
    expect(adviceFor('timeout')).to.equal(failures.timeout);
    expect(adviceFor('http_404')).to.equal(statusFailure);
  });
});
