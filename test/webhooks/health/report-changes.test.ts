import { expect } from 'chai';
import { createHealthService, type HealthService, healthState, isFailing } from '../../../src/webhooks/health.ts';
import {
  createReportChanges,
  type FailingWebhook,
  type RecoveredWebhook,
} from '../../../src/webhooks/health-changes.ts';
import { createHealthModel, createTallyModel, type HealthDocument } from '../../../src/webhooks/model.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { recordingLogger } from '../../support/logger.ts';
import { until } from '../../support/until.ts';

const minute = 60_000;
const processes = 3;

describe('Changes of the health of webhooks', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let services: HealthService[];
  let told: ({ name: 'failing' | 'recovered' } & (FailingWebhook | RecoveredWebhook))[];
  /** The webhooks that exist, and whether they are active. */
  const webhooks = new Map<string, boolean>();
  /** What the look-up of webhooks waits for, and how often they are looked up. */
  let finding: Promise<void> = Promise.resolve();
  let looks = 0;
  const logger = recordingLogger();
  const now = Date.now();
  const ago = (minutes: number) => new Date(now - minutes * minute);

  before(async () => {
    database = await watchedDatabase();
    const tallies = createTallyModel(database.connection, 'gateway_');
    const healths = createHealthModel(database.connection, 'gateway_');
    services = Array.from({ length: processes }, () =>
      createHealthService({
        tallies,
        healths,
        reportChanges: createReportChanges({
          healths,
          async find(ids) {
            looks += 1;
            await finding;
            const existing = ids.filter((id) => webhooks.has(id));
            return existing.map((id) => ({
              id,
              userId: 'usr_1',
              url: `https://example.com/${id}`,
              events: ['credits.low'],
              active: webhooks.get(id) === true,
            }));
          },
          onFailing: (webhook) => told.push({ name: 'failing', ...webhook }),
          onRecovered: (webhook) => told.push({ name: 'recovered', ...webhook }),
          logger,
        }),
        disableFailing: async () => {},
        // nothing is written before a test flushes
        interval: 1_000_000,
        logger,
      }),
    );
  });
  after(() => database.drop());

  beforeEach(() => {
    told = [];
    webhooks.clear();
  });

  const attemptOf = (webhookId: string) => (minutes: number, code?: string) => ({
    webhookId,
    deliveryId: 'dlv_1',
    at: ago(minutes),
    durationMs: 10,
    ...(code !== undefined && { status: 503, code }),
  });
  type Attempt = ReturnType<ReturnType<typeof attemptOf>>;

  /** Each process records one of the attempts, or none; then all of them write at the same moment. */
  async function recorded(...attempts: Attempt[]): Promise<string[]> {
    told = [];
    for (const [i, attempt] of attempts.entries()) services[i % processes]?.record(attempt);
    await Promise.all(services.map((service) => service.flush()));
    return told.map(({ name }) => name);
  }

  it('are reported once, by one of several processes, with the time of the first failure', async () => {
    webhooks.set('wh_once', true);
    const attempt = attemptOf('wh_once');
    expect(await recorded(attempt(30, 'http_503'), attempt(26, 'http_503'), attempt(26.5, 'http_503'))).to.deep.equal(
      [],
    );
    expect(await recorded(attempt(20, 'http_503'), attempt(21, 'http_503'), attempt(22, 'http_503'))).to.deep.equal([
      'failing',
    ]);
    const webhook = {
      id: 'wh_once',
      userId: 'usr_1',
      url: 'https://example.com/wh_once',
      events: ['credits.low'],
      failingSince: ago(30),
    };
    const lastFailure = { at: ago(20), deliveryId: 'dlv_1', status: 503, code: 'http_503' };
    const [{ name: _, ...failing }] = told as [(typeof told)[number]];
    expect(failing).to.deep.include(webhook);
    expect(failing).to.have.all.keys(...Object.keys(webhook), 'lastFailure');
    expect((failing as FailingWebhook).lastFailure.at).to.be.within(ago(22), lastFailure.at);

    expect(await recorded(attempt(19, 'http_503'), attempt(18, 'http_503'))).to.deep.equal([]);
    expect(await recorded(attempt(10), attempt(12), attempt(11))).to.deep.equal(['recovered']);
    const [{ name: __, ...recovered }] = told as [(typeof told)[number]];
    expect(recovered).to.deep.include(webhook);
    expect((recovered as RecoveredWebhook).lastSuccessAt).to.be.within(ago(12), ago(10));
    expect(await recorded(attempt(9), attempt(8, 'http_503'))).to.deep.equal([]);
    expect(await recorded(attempt(4, 'http_503'), attempt(3, 'http_503'), attempt(2, 'http_503'))).to.deep.equal([
      'failing',
    ]);
  });

  it('are not reported when a webhook succeeds again before three failures over five minutes', async () => {
    webhooks.set('wh_short', true);
    const attempt = attemptOf('wh_short');
    await recorded(attempt(30, 'timeout'), attempt(29, 'timeout'), attempt(28, 'timeout'));
    await recorded(attempt(27));
    await recorded(attempt(20, 'timeout'), attempt(10, 'timeout'));
    expect(await recorded(attempt(9))).to.deep.equal([]);
  });

  it('are reported for an inactive webhook only when it recovers, and for a deleted one never', async () => {
    webhooks.set('wh_paused', false);
    const attempt = attemptOf('wh_paused');
    const failures = [attempt(30, 'timeout'), attempt(25, 'timeout'), attempt(20, 'timeout')];
    expect(await recorded(...failures)).to.deep.equal([]);
    webhooks.set('wh_paused', true);
    expect(await recorded(attempt(19, 'timeout'))).to.deep.equal(['failing']);
    webhooks.set('wh_paused', false);
    expect(await recorded(attempt(18, 'timeout'))).to.deep.equal([]);
    expect(await recorded(attempt(17))).to.deep.equal(['recovered']);

    const deleted = attemptOf('wh_deleted');
    expect(await recorded(deleted(30, 'reset'), deleted(25, 'reset'), deleted(20, 'reset'))).to.deep.equal([]);
    expect(await recorded(deleted(19))).to.deep.equal([]);
  });

  it('are reported later if the database refuses to mark them', async () => {
    webhooks.set('wh_refused', true);
    const attempt = attemptOf('wh_refused');
    await recorded(attempt(30, 'timeout'), attempt(28, 'timeout'), attempt(27, 'timeout'));
    const { connection } = database;
    const validate = (validator: object) =>
      connection.getClient().db(connection.name).command({ collMod: 'gateway_health', validator });
    await validate({ reportedFailingSince: { $exists: false } });
    expect(await recorded(attempt(20, 'timeout'))).to.deep.equal([]);
    expect(logger.lines.at(-1)).to.include({ message: 'changes of the health of webhooks will be reported later' });
    await validate({});
    // an attempt to any webhook makes the process look again
    expect(await recorded(attemptOf('wh_other')(1))).to.deep.equal(['failing']);
    expect(await recorded(attemptOf('wh_other')(0.5))).to.deep.equal([]);
  });

  it('are reported for many webhooks by one query at a time, and the statistics do not wait for it', async () => {
    const [service] = services as [HealthService];
    const ids = Array.from({ length: 100 }, (_, i) => `wh_many_${i}`);
    const record = (id: string, ...minutes: number[]) => {
      webhooks.set(id, true);
      for (const ago of minutes) service.record(attemptOf(id)(ago, 'timeout'));
    };
    for (const id of ids) record(id, 30, 25, 20);
    looks = 0;
    let found = () => {};
    finding = new Promise((resolve) => {
      found = resolve;
    });
    const first = service.flush();
    await until(async () => looks === 1);
    record('wh_late', 29, 24, 19);
    const second = service.flush();
    await until(async () => (await service.of('wh_late')).failures === 3);
    expect(looks).to.equal(1);
    expect(told).to.deep.equal([]);
    found();
    await Promise.all([first, second]);
    await until(async () => told.length > ids.length);
    expect(told.map(({ id }) => id)).to.have.members([...ids, 'wh_late']);
    expect(looks).to.equal(2);
  });

  it('cost one read besides the statistics where nothing has changed', async () => {
    for (const id of ['wh_1', 'wh_2', 'wh_3']) webhooks.set(id, true);
    const [service] = services as [HealthService];
    database.forget();
    for (const id of webhooks.keys()) {
      for (const minutes of [3, 2, 1]) service.record(attemptOf(id)(minutes, minutes === 2 ? 'timeout' : undefined));
    }
    await service.flush();
    expect(database.commandsTo('gateway_health').map(({ name }) => name)).to.deep.equal(['update', 'find']);
  });

  it('follow the same rule in the database as the health that the API shows', async () => {
    const dates = [undefined, ago(400), ago(10), ago(5), ago(4.9), ago(0)];
    const all = [undefined, 0, 2, 3, 40].flatMap((failures) =>
      dates.flatMap((failingSince) =>
        dates.map((at) => ({
          _id: `rule ${failures} ${failingSince?.getTime()} ${at?.getTime()}`,
          updatedAt: ago(0),
          ...(failures !== undefined && { failures }),
          ...(failingSince && { failingSince }),
          ...(at && { lastFailure: { at, deliveryId: 'dlv_1', code: 'timeout' } }),
        })),
      ),
    ) as HealthDocument[];
    const collection = database.connection.collection<HealthDocument>('gateway_health');
    await collection.insertMany(all);
    const found = await collection.find({ _id: { $regex: /^rule / }, $expr: isFailing }).toArray();
    const expected = all.filter((health) => healthState(health, now) === 'failing');
    expect(expected).to.not.have.length(0);
    expect(found.map(({ _id }) => _id).sort()).to.deep.equal(expected.map(({ _id }) => _id).sort());
  });
});
