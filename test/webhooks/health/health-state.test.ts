import { expect } from 'chai';
import { bucketOf, type Durations, merged, percentile } from '../../../src/mongo/durations.ts';
import { healthState } from '../../../src/webhooks/health.ts';
import { createHealthModel, createTallyModel } from '../../../src/webhooks/model.ts';
import { createRecorder } from '../../../src/webhooks/recorder.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';

const minute = 60_000;
const day = 86_400_000;
const now = Date.parse('2026-01-10T00:00:00Z');
const ago = (ms: number) => new Date(now - ms);
const failure = (ms: number) => ({ at: ago(ms), deliveryId: 'dlv_1', code: 'timeout' });

describe('A webhook', () => {
  const cases: [string, Parameters<typeof healthState>[0], string][] = [
    ['is idle when nothing was ever sent', {}, 'idle'],
    ['is idle when nothing was sent in a week', { lastSuccessAt: ago(8 * day) }, 'idle'],
    [
      'is healthy when the last attempt succeeded',
      { lastSuccessAt: ago(minute), lastFailure: failure(day) },
      'healthy',
    ],
    [
      'is failing after three failures over five minutes',
      { failingSince: ago(6 * minute), lastFailure: failure(minute), failures: 3 },
      'failing',
    ],
    [
      'is not failing after two, however long ago the first was',
      { failingSince: ago(day), lastFailure: failure(minute), failures: 2 },
      'healthy',
    ],
    [
      'is not failing after a burst of failures',
      { failingSince: ago(3 * minute), lastFailure: failure(minute), failures: 100 },
      'healthy',
    ],
    [
      'stays failing when nothing is sent any more',
      { failingSince: ago(20 * day), lastFailure: failure(10 * day), failures: 9 },
      'failing',
    ],
  ];
  for (const [what, health, state] of cases) {
    it(what, () => {
      expect(healthState(health, now)).to.equal(state);
    });
  }
});

describe('Attempts gathered in memory', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  before(async () => {
    database = await freshDatabase();
  });
  after(() => database.drop());

  const attempt = (ms: number, code?: string) => ({
    webhookId: 'wh_1',
    deliveryId: 'dlv_1',
    at: ago(ms),
    durationMs: 10,
    ...(code !== undefined && { code }),
  });

  /** What is written of attempts that were gathered together, of a webhook that had none before. */
  async function healthAfter(...attempts: ReturnType<typeof attempt>[]) {
    const healths = createHealthModel(database.connection, 'gateway_');
    await healths.deleteMany({});
    const recorder = createRecorder({
      tallies: createTallyModel(database.connection, 'gateway_'),
      healths,
      interval: minute,
      onWritten: async () => {},
      onFailures: async () => {},
      logger: silentLogger,
    });
    for (const one of attempts) recorder.record(one);
    await recorder.close();
    return healths.findById('wh_1').lean();
  }

  it('count the failures since the last success, and keep the time of the first', async () => {
    const attempts = [attempt(9, 'reset'), attempt(8), attempt(7, 'reset'), attempt(6, 'timeout')];
    const health = await healthAfter(...attempts);
    expect(health).to.deep.include({ failures: 2, lastSuccessAt: ago(8), failingSince: ago(7) });
    expect(health?.lastFailure).to.deep.include({ at: ago(6), code: 'timeout' });
    const later = await healthAfter(...attempts, attempt(5));
    expect(later)
      .to.deep.include({ failures: 0, lastSuccessAt: ago(5) })
      .and.not.have.property('failingSince');
  });

  it('do not count a failure that ended before the last success', async () => {
    const health = await healthAfter(attempt(5), attempt(6, 'reset'));
    expect(health).to.deep.include({ failures: 0 }).and.not.have.property('failingSince');
  });
});

describe('A histogram of durations', () => {
  const of = (durations: number[]): Durations => {
    const counts: Record<string, number> = {};
    for (const ms of durations) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
    return counts;
  };

  for (const ms of [0, 1, 3, 10, 42, 310, 1_000, 9_999, 30_000]) {
    it(`gives ${ms} ms within 10 percent`, () => {
      expect(percentile(of([ms]), 0.5)).to.be.closeTo(ms, Math.max(0.5, ms * 0.1));
    });
  }

  it('gives percentiles, also of several histograms together', () => {
    const fast = of(Array(90).fill(20));
    const slow = of(Array(10).fill(5_000));
    const all = merged([fast, slow]);
    expect(percentile(all, 0.5)).to.be.closeTo(20, 2);
    expect(percentile(all, 0.9)).to.be.closeTo(20, 2);
    expect(percentile(all, 0.95)).to.be.closeTo(5_000, 500);
    expect(percentile({}, 0.5)).to.equal(null);
  });
});
