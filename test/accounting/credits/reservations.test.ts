import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { type CreditService, startCredits, type TestCredits } from './harness.ts';

describe('what is reserved of a balance while the database is slow', function () {
  this.timeout(30_000);
  let credits: TestCredits;
  let service: CreditService;
  let accounts = 0;
  before(async () => {
    credits = await startCredits();
  });
  after(() => credits.drop());
  // closed, it has given back what the calls of a test have left over: no update of its is disturbed in place of one of the next test
  beforeEach(() => {
    service = credits.newService();
  });
  afterEach(() => service.close());

  async function newAccount(amount: number): Promise<string> {
    accounts += 1;
    const userId = `usr_slow_${accounts}`;
    await service.topUp({ userId, credits: amount, reference: 'once' });
    return userId;
  }

  /** Has a call admitted that costs so many credits. */
  function admit(userId: string, cost: number) {
    const principal = { userId, scopes: [] };
    const call = { requestId: 'req_1', principal, endpoint: '/embeddings', model: 'm', stream: false };
    return service.admit(call, cost);
  }

  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  /** What happens to the next updates of balances. @returns what resolves when the first has come to the database */
  async function disturb(times: number, how: object) {
    const namespace = `${credits.connection.name}.gateway_credit_accounts`;
    const data = { failCommands: ['findAndModify'], namespace, ...how };
    const admin = credits.connection.getClient().db('admin');
    const { count } = await admin.command({ configureFailPoint: 'failCommand', mode: { times }, data });
    const name = 'failpoint.failCommand';
    return () => until(async () => (await admin.command({ getParameter: 1, [name]: 1 }))[name].timesEntered > count);
  }

  const reservationsOf = async (userId: string) => {
    const stored = credits.connection.collection('gateway_credit_accounts');
    const account = await stored.findOne({ _id: userId as never });
    return (account?.reservations ?? []) as readonly { readonly holder: string }[];
  };

  const record = (_id: string, userId: string, inputTokens: number) =>
    ({ _id, userId, model: 'm', inputTokens, cachedInputTokens: 0, outputTokens: 0, images: 0 }) as never;

  it('is not kept for a call that was refused because it took too long', async () => {
    const userId = await newAccount(4);
    // each try is made, later than it is waited for
    await disturb(3, { blockConnection: true, blockTimeMS: 5_000 });
    const refusal = await failureOf(admit(userId, 3));
    expect(refusal).to.include({ code: 'database_unavailable' });
    const admission = await admit(userId, 3);
    admission.dropped();
  });

  it('is granted by the first answer that comes, and counts once', async () => {
    const userId = await newAccount(4);
    // of both updates the first is not waited for alone
    await disturb(2, { blockConnection: true, blockTimeMS: 2_500 });
    const admission = await admit(userId, 3);
    expect(await failureOf(admit(userId, 2))).to.include({ code: 'insufficient_credits' });
    admission.dropped();
    (await admit(userId, 4)).dropped();
  });

  it('is not asked for again where the database refuses it', async () => {
    const userId = await newAccount(4);
    await disturb(1, { errorCode: 13 });
    expect(await failureOf(admit(userId, 3))).to.include({ code: 13 });
    (await admit(userId, 3)).dropped();
  });

  it('is free again when a call has been charged that outlives its process, also where it was stored behind that', async () => {
    const userId = await newAccount(4);
    const admission = await admit(userId, 3);
    const hasCome = await disturb(1, { blockConnection: true, blockTimeMS: 1_500 });
    admission.outlives?.('use_late');
    await hasCome();
    admission.closed(record('use_late', userId, 3));
    await credits.events.transaction((session) => service.charge([record('use_late', userId, 3)], session));
    await until(async () => (await reservationsOf(userId)).some(({ holder }) => holder === 'use_late'));
    await until(async () => !(await reservationsOf(userId)).some(({ holder }) => holder === 'use_late'), 10_000);
    (await admit(userId, 1)).dropped();
  });
});
