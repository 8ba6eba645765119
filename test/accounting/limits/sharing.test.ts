import { expect } from 'chai';
import { createLimiter } from '../../../src/accounting/limiter.ts';
import { createSharing, MinuteCounters } from '../../../src/accounting/minute-counters.ts';
import { createRateModel, type RateModel } from '../../../src/accounting/model.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';

const alice = { userId: 'usr_a' };

describe('rate limits that processes share', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let rates: RateModel;

  function start(owner: string) {
    const tallies = new MinuteCounters();
    const options = { perUser: { requestsPerMinute: 10, tokensPerMinute: 1_000 } };
    const now = () => 1_767_225_600_000;
    const admit = createLimiter({ options, counters: tallies, onRefused() {}, now });
    return { admit, ...createSharing({ rates, counters: tallies, owner, interval: 10, logger: silentLogger }) };
  }

  beforeEach(async () => {
    database = await freshDatabase();
    rates = createRateModel(database.connection, 'gateway_');
    await rates.createIndexes();
  });
  afterEach(() => database.drop());

  it('count the requests and tokens of all processes together', async () => {
    const [one, two] = [start('wrk_1'), start('wrk_2')];
    for (let i = 0; i < 6; i += 1) one.admit(alice, 100);
    await one.exchange();
    expect(two.admit(alice, 50)?.headers).to.include({ 'x-ratelimit-remaining-requests': '9' });
    await two.exchange();
    expect(two.admit(alice, 50)?.headers).to.include({
      'x-ratelimit-remaining-requests': '2',
      'x-ratelimit-remaining-tokens': '300',
    });
    two.admit(alice, 0);
    two.admit(alice, 0);
    expect(() => two.admit(alice, 0)).to.throw(/10 requests per minute/);
  });

  it('send their total counts, so that a repeated exchange counts once', async () => {
    const [one, two] = [start('wrk_1'), start('wrk_2')];
    one.admit(alice, 1);
    await one.exchange();
    one.admit(alice, 1);
    await one.exchange();
    two.admit(alice, 1);
    await two.exchange();
    expect(two.admit(alice, 1)?.headers).to.include({ 'x-ratelimit-remaining-requests': '6' });
  });

  it('still apply in each process while the database is away, and send no query without calls', async () => {
    const one = start('wrk_1');
    const find = rates.find;
    let asked = 0;
    rates.find = ((...args: Parameters<typeof find>) => {
      asked += 1;
      return find.apply(rates, args);
    }) as typeof find;
    one.start();
    // shows that nothing happens
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(asked).to.equal(0);
    const { collection } = rates;
    const bulkWrite = collection.bulkWrite.bind(collection);
    collection.bulkWrite = async () => Promise.reject(new Error('no primary'));
    for (let i = 0; i < 10; i += 1) one.admit(alice, 1);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(() => one.admit(alice, 1)).to.throw(/10 requests per minute/);
    collection.bulkWrite = bulkWrite;
    await one.stop();
  });
});
