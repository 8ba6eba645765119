import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { type CreditService, startCredits, type TestCredits } from './harness.ts';

describe('calls of an account that come steadily', function () {
  this.timeout(30_000);
  let credits: TestCredits;
  /** Two processes. */
  let services: readonly CreditService[];
  let accounts = 0;
  const flows: { stop(): Promise<void> }[] = [];

  before(async () => {
    credits = await startCredits();
    services = [credits.newService(), credits.newService()];
  });
  afterEach(() => Promise.all(flows.splice(0).map((flow) => flow.stop())));
  after(async () => {
    for (const service of services) await service.close();
    await credits.drop();
  });

  async function newAccount(amount: number): Promise<string> {
    accounts += 1;
    const userId = `usr_steady_${accounts}`;
    await services[0]?.topUp({ userId, credits: amount, reference: 'once' });
    return userId;
  }

  /** Has a call admitted that costs so many credits. */
  function admit(userId: string, cost: number, service = services[0] as CreditService) {
    const principal = { userId, scopes: [] };
    const call = { requestId: 'req_1', principal, endpoint: '/embeddings', model: 'm', stream: false };
    return service.admit(call, cost);
  }

  interface Stored {
    readonly holder: string;
    readonly taken: number;
    readonly charged: number;
    readonly turn: number;
    readonly spare: number;
  }
  async function storedOf(userId: string): Promise<readonly Stored[]> {
    const account = await credits.connection.collection('gateway_credit_accounts').findOne({ _id: userId as never });
    return (account?.reservations ?? []) as readonly Stored[];
  }
  const updatesOf = async (userId: string) => Math.max(0, ...(await storedOf(userId)).map(({ turn }) => turn));
  const spareOf = async (userId: string) => (await storedOf(userId)).reduce((sum, { spare }) => sum + spare, 0);
  const heldOf = async (userId: string) =>
    (await storedOf(userId)).reduce((sum, { taken, charged }) => sum + taken - charged, 0);

  /** Makes calls of one credit, one behind the other, of which none may be refused. @returns once something is reserved for those to come */
  async function flow(userId: string, service = services[0] as CreditService) {
    const state = { isOver: false, calls: 0 };
    const running = (async () => {
      while (!state.isOver) {
        const admission = await admit(userId, 1, service);
        state.calls += 1;
        await new Promise((resolve) => setTimeout(resolve, 2));
        admission.dropped();
      }
    })();
    const stop = async () => {
      state.isOver = true;
      await running;
    };
    flows.push({ stop });
    await Promise.race([running, until(async () => (await spareOf(userId)) > 0)]);
    return { state, stop };
  }

  it('are admitted from what an update has reserved for many of them', async () => {
    const userId = await newAccount(1_000_000);
    const { state } = await flow(userId);
    const [calls, updates] = [state.calls, await updatesOf(userId)];
    await until(() => state.calls > calls + 300);
    expect((await updatesOf(userId)) - updates).to.be.below((state.calls - calls) / 10);
  });

  it('leave nothing reserved when they have ended', async () => {
    const userId = await newAccount(1_000_000);
    const { stop } = await flow(userId);
    await stop();
    await until(async () => (await heldOf(userId)) === 0);
  });

  it('leave nothing reserved when their process closes', async () => {
    const userId = await newAccount(1_000_000);
    const closing = credits.newService();
    const { stop } = await flow(userId, closing);
    await stop();
    await closing.close();
    expect(await heldOf(userId)).to.equal(0);
  });

  for (const [i, where] of ['the same process', 'another'].entries()) {
    it(`keep no other call from all that is left, at ${where}`, async () => {
      const userId = await newAccount(10_000);
      const { state } = await flow(userId);
      // until they are admitted in memory alone
      await until(() => state.calls > 300);
      // beside the one that is under way
      (await admit(userId, 9_999, services[i])).dropped();
    });
  }

  it('keep no other call from all that is left where they come at both processes', async () => {
    const userId = await newAccount(1_000_000);
    const both = [await flow(userId, services[0]), await flow(userId, services[1])];
    await until(() => both.every(({ state }) => state.calls > 300));
    for (const service of services) (await admit(userId, 999_990, service)).dropped();
  });

  it('are held for nobody where little is left', async () => {
    const userId = await newAccount(40);
    const admitted = [];
    for (let i = 0; i < 40; i += 1) admitted.push(await admit(userId, 1, services[i % 2]));
    const refused = await admit(userId, 1).catch((error: unknown) => error);
    expect(refused).to.include({ status: 402 });
    for (const admission of admitted) admission.dropped();
    (await admit(userId, 40, services[1])).dropped();
  });

  it('take what they cost from what is reserved for them', async () => {
    const userId = await newAccount(1_000_000);
    const [service] = services as [CreditService];
    await flow(userId);
    const holders: (string | undefined)[] = [];
    for (let i = 0; i < 50; i += 1) {
      const admission = await admit(userId, 5);
      const record = { _id: `use_${userId}_${i}`, userId, model: 'm', inputTokens: 5, cachedInputTokens: 0 };
      const holder = service.recorded({ ...record, outputTokens: 0, images: 0 } as never);
      admission.dropped();
      holders.push(holder);
    }
    for (const [i, holder] of holders.entries()) await credits.charge(service, userId, [[i, 5, holder]]);
    await flows.splice(0)[0]?.stop();
    await until(async () => (await heldOf(userId)) === 0);
    expect((await service.balance(userId)).creditsRemaining).to.equal(1_000_000 - 250);
  });
});
