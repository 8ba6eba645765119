import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimitService, type LimitService, type LimitServiceDeps } from '../../../src/accounting/limits.ts';
import { createAccountingModels, type ExceededDocument, type ExceededModel } from '../../../src/accounting/model.ts';
import type { EventInput, GatewayError } from '../../../src/index.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { whileClockStands } from '../../support/clock.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

interface Published {
  readonly input: EventInput & { readonly data: Record<string, unknown> };
  readonly idempotencyKey: string;
  readonly at: number;
}

const window = 400;

describe('refused calls', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let exceeded: ExceededModel;
  let collection: ReturnType<typeof durableCollection<ExceededDocument>>;
  let published: Published[];
  let services: LimitService[];

  function start(deps: Partial<LimitServiceDeps> = {}): LimitService {
    const service = createLimitService({
      rates: durableCollection(createAccountingModels(database.connection, 'gateway_').rates),
      exceeded: collection,
      publish: async (input, { idempotencyKey }) => {
        published.push({ input: input as Published['input'], idempotencyKey, at: Date.now() });
      },
      options: { perKey: { requestsPerMinute: 1 } },
      syncInterval: 200,
      eventWindow: window,
      logger: silentLogger,
      flushInterval: 5,
      ...deps,
    });
    services.push(service);
    return service;
  }

  function flood(service: LimitService, keyId: string, refusals: number): void {
    let refused = 0;
    while (refused < refusals) {
      try {
        service.admit?.({ userId: 'usr_1', keyId }, 1);
      } catch {
        refused += 1;
      }
    }
  }

  const rejected = () => published.reduce((sum, { input }) => sum + Number(input.data.rejected_requests), 0);

  /** Until the database has so many refusals. */
  async function untilStored(total: number): Promise<void> {
    await until(async () => {
      const counts = (await exceeded.find().lean()).flatMap((stored) => Object.values(stored.counts));
      return counts.reduce((sum, count) => sum + count, 0) === total;
    });
  }

  async function untilClosed(service: LimitService, total: number): Promise<void> {
    await until(async () => {
      await service.closeWindows();
      return rejected() >= total;
    });
  }

  beforeEach(async () => {
    published = [];
    services = [];
    database = await freshDatabase();
    exceeded = createAccountingModels(database.connection, 'gateway_').exceeded;
    await exceeded.createIndexes();
    collection = durableCollection(exceeded);
  });

  afterEach(async () => {
    await Promise.all(services.map((service) => service.close()));
    await database.drop();
  });

  it('are summed over all processes into one event per key and window, published when the window ends', async () => {
    const [one, two] = [start(), start()];
    const at = await whileClockStands(() => {
      flood(one, 'key_1', 30);
      flood(two, 'key_1', 12);
      flood(two, 'key_2', 3);
      return Date.now();
    });
    await untilStored(45);
    await one.closeWindows();
    await untilClosed(two, 45);
    const [first, second] = published.map(({ input }) => input).sort((a) => (a.data.api_key_id === 'key_1' ? -1 : 1));
    const windowStart = Math.floor(at / window) * window;
    for (const { at: publishedAt } of published) expect(publishedAt).to.be.at.least(windowStart + window);
    expect(first).to.deep.equal({
      type: 'rate_limit.exceeded',
      userId: 'usr_1',
      data: {
        user_id: 'usr_1',
        api_key_id: 'key_1',
        limit: 1,
        rejected_requests: 42,
        window_start: new Date(windowStart).toISOString(),
        window_end: new Date(windowStart + window).toISOString(),
      },
    });
    expect(second?.data).to.include({ api_key_id: 'key_2', rejected_requests: 3 });
    await one.closeWindows();
    expect(published).to.have.length(2);
  });

  it('are published by another process when theirs has died', async () => {
    const survivor = start();
    // never closed nor asked again: as far as the database can see, it is dead
    const dead = start();
    services.pop();
    flood(dead, 'key_1', 7);
    await untilStored(7);
    await untilClosed(survivor, 7);
    expect(rejected()).to.equal(7);
  });

  it('are published with the same idempotency key and data by every process', async () => {
    let allPublish: () => void = () => {};
    const allHavePublished = new Promise<void>((resolve) => {
      allPublish = resolve;
    });
    const all = Array.from({ length: 3 }, () =>
      start({
        publish: async (input, { idempotencyKey }) => {
          const count = published.push({ input: input as Published['input'], idempotencyKey, at: Date.now() });
          if (count === 3) allPublish();
          // the window stays unpublished until each process has come to it
          await allHavePublished;
        },
      }),
    );
    await whileClockStands(() => flood(all[0] as LimitService, 'key_1', 9));
    await untilStored(9);
    // until the window has closed
    await sleep(2 * window + 50);
    await Promise.all(all.map((service) => service.closeWindows()));
    const publications = published.map(({ input, idempotencyKey }) => ({ input, idempotencyKey }));
    expect(publications).to.have.length(3);
    for (const publication of publications) expect(publication).to.deep.equal(publications[0]);
    expect(publications[0]?.idempotencyKey).to.match(/^rate_limit\.exceeded:[0-9a-f]{64}$/);
  });

  it('are published again after a failed publication', async () => {
    let failures = 2;
    const service = start({
      publish: async (input, { idempotencyKey }) => {
        if (failures-- > 0) throw new Error('the database is away');
        published.push({ input: input as Published['input'], idempotencyKey, at: Date.now() });
      },
    });
    await whileClockStands(() => flood(service, 'key_1', 4));
    await untilStored(4);
    // until the window has closed
    await sleep(2 * window + 50);
    for (let i = 0; i < 2; i += 1) {
      expect(await service.closeWindows().catch(({ message }) => message)).to.equal('the database is away');
    }
    await service.closeWindows();
    expect(rejected()).to.equal(4);
  });

  it('count once when the result of their write is unknown', async () => {
    const service = start();
    const bulkWrite = collection.bulkWrite.bind(collection);
    let lost = 2;
    collection.bulkWrite = async (...args) => {
      const result = await bulkWrite(...args);
      if (lost-- > 0) throw new Error('connection closed');
      return result;
    };
    flood(service, 'key_1', 5);
    // in a window that is still open, for nobody closes it meanwhile
    await until(() => lost < 0);
    await untilClosed(service, 5);
    // until a window after it would have closed
    await sleep(2 * window);
    await service.closeWindows();
    expect(rejected()).to.equal(5);
  });

  it('count in the next window when they are reported after theirs has closed', async () => {
    const service = start();
    await whileClockStands(async () => {
      await service.reportExceeded({ userId: 'usr_1', apiKeyId: 'key_1', limit: 60, rejectedRequests: 3 });
      await exceeded.updateMany({}, { $set: { state: 'closed' } });
      await service.reportExceeded({ userId: 'usr_1', apiKeyId: 'key_1', limit: 60, rejectedRequests: 4 });
    });
    await untilClosed(service, 7);
    expect(published.map(({ input }) => input.data.rejected_requests)).to.deep.equal([3, 4]);
  });

  it("reported by the host's own limiter are published the same way, without a limit in the gateway", async () => {
    const service = start({ options: {} });
    expect(service.admit).to.equal(undefined);
    await service.reportExceeded({ userId: 'usr_9', apiKeyId: null, limit: 10 });
    await untilClosed(service, 1);
    expect(published[0]?.input.data).to.include({
      user_id: 'usr_9',
      api_key_id: 'none',
      limit: 10,
      rejected_requests: 1,
    });
  });

  it('cannot be reported without a user or with an invalid key, limit, count or time', async () => {
    const service = start();
    const report = { userId: 'usr_1', apiKeyId: 'key_1', limit: 1 };
    const wrong: [param: string, report: object][] = [
      ['userId', { ...report, userId: '' }],
      ['apiKeyId', { ...report, apiKeyId: '' }],
      ['limit', { ...report, limit: -1 }],
      ['rejectedRequests', { ...report, rejectedRequests: 0 }],
      ['at', { ...report, at: new Date(Number.NaN) }],
    ];
    for (const [param, given] of wrong) {
      const error: GatewayError = await service.reportExceeded(given as typeof report).then(
        () => expect.fail(`${param} should have been refused`),
        (thrown) => thrown,
      );
      expect(error).to.include({ code: 'invalid_value', param });
    }
  });
});
