import { expect } from 'chai';
import { createSendRateModel } from '../../../src/fairness/model.ts';
import { createSendRates, type Permit, permitHorizon } from '../../../src/fairness/send-rates.ts';
import { watchedDatabase } from '../../support/commands.ts';

describe('Permits to send', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  before(async () => {
    database = await watchedDatabase();
  });
  after(() => database.drop());

  /** As one process takes them. */
  const process = () => createSendRates(createSendRateModel(database.connection, 'gateway_')).take;
  const take = (count: number, webhookId: string, rateLimit: number, taker = process(), waits = false) =>
    Promise.all(Array.from({ length: count }, () => taker({ webhookId, rateLimit, waits })));
  const waits = (permits: readonly Permit[]) => permits.map(({ wait }) => wait);

  it('are evenly spaced by the limit, the first at once', async () => {
    expect(waits(await take(5, 'wh_1', 10))).to.deep.equal([0, 100, 200, 300, 400]);
    expect(waits(await take(4, 'wh_2', 7))).to.deep.equal([0, 143, 286, 429]);
  });

  it('requested at the same moment share one write', async () => {
    database.forget();
    await take(20, 'wh_3', 1_000);
    expect(database.commandsTo('gateway_sendrates').map(({ name }) => name)).to.deep.equal(['findAndModify']);
  });

  it('are granted no further ahead than the horizon; the rest may be requested again later', async () => {
    const permits = await take(20, 'wh_4', 10);
    const granted = permits.filter(({ isGranted }) => isGranted);
    expect(granted).to.have.length(permitHorizon / 100 + 1);
    for (const { wait } of permits.slice(granted.length)) expect(wait).to.be.within(1, permitHorizon);
  });

  it('are shared by all processes', async () => {
    const [one, other] = [process(), process()];
    const started = performance.now();
    const permits = (await Promise.all([take(10, 'wh_5', 10, one), take(10, 'wh_5', 10, other)])).flat();
    const took = performance.now() - started;
    const granted = permits.filter(({ isGranted }) => isGranted);
    // the second write came a moment later, so that more may be within its horizon: one for each 100 ms
    expect(granted.length).to.be.within(6, 7 + Math.floor(took / 100));
  });

  it('are granted to callers that wait, however late', async () => {
    const [first, ...others] = await take(20, 'wh_6', 10, process(), true);
    expect(first).to.deep.equal({ isGranted: true, wait: 0 });
    expect(others.map(({ isGranted }) => isGranted)).to.not.include(false);
    expect(others.at(-1)?.wait).to.equal(1_900);
  });

  it('are granted to callers that wait and to callers that do not, together', async () => {
    const taker = process();
    const [near, late] = await Promise.all([take(10, 'wh_7', 10, taker), take(2, 'wh_7', 10, taker, true)]);
    expect(near.filter(({ isGranted }) => isGranted)).to.have.length(6);
    expect(waits(late)).to.deep.equal([600, 700]);
  });

  it('follow a change of the limit from the next one on', async () => {
    // one permit in ten seconds
    await take(1, 'wh_8', 0.1);
    const [next] = await take(1, 'wh_8', 100, process(), true);
    const [after] = await take(1, 'wh_8', 100, process(), true);
    expect(next?.wait).to.be.within(500, 10_000);
    expect(after?.wait).to.be.at.most(Number(next?.wait) + 10);
  });
});
