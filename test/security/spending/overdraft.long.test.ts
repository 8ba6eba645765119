import { expect } from 'chai';
import fc from 'fast-check';
import { GatewayError } from '../../../src/index.ts';
import { type CreditService, startCredits, type TestCredits } from '../../accounting/credits/harness.ts';
import { startGateway } from '../../support/gateway.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** Calls that one account makes at once at one process; a call is taken for `reserved` credits and costs `cost`. */
type Burst = { kind: 'calls'; process: number; count: number; reserved: number; cost: number };
type Step =
  | Burst
  | { kind: 'top_up'; process: number; credits: number }
  | { kind: 'charge'; process: number }
  | { kind: 'idle' }
  | { kind: 'restart'; process: number };

const processes = 2;
/** The dearest reservation of these calls. */
const largest = 3;
const process = fc.nat(processes - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ process, count: fc.integer({ min: 1, max: 40 }), reserved: fc.integer({ min: 1, max: largest }) })
      .chain((burst) =>
        fc.integer({ min: 0, max: burst.reserved }).map((cost) => ({ kind: 'calls' as const, ...burst, cost })),
      ),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('top_up' as const), process, credits: fc.integer({ min: 1, max: 30 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('charge' as const), process }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'idle' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), process }) },
);

const tenMinutes = 600_000;

describe('an account that spends its credits at two gateways', function () {
  this.timeout(120_000);
  let kept: TestCredits;
  let users = 0;
  const realNow = performance.now;
  let skipped = 0;

  before(async () => {
    kept = await startCredits();
    performance.now = () => realNow.call(performance) + skipped;
  });
  after(async () => {
    performance.now = realNow;
    await kept.drop();
  });

  const newService = () => kept.newService({ expectedOutputTokens: 0 });

  /** Ten minutes and more in which nobody calls: reservations lapse, and what processes remember of the account is given up. */
  async function idle(): Promise<void> {
    skipped += tenMinutes + 60_000;
    const accounts = kept.connection.collection('gateway_credit_accounts');
    const until = new Date(Date.now() - 60_000);
    await accounts.updateMany({ reservations: { $ne: [] } }, { $set: { 'reservations.$[].until': until } });
  }

  /** One account, what it was given and has spent, and the processes it calls. */
  async function open() {
    const userId = `usr_${users++}`;
    const services: CreditService[] = Array.from({ length: processes }, newService);
    const unbooked: [number: number, credits: number, holder: string | undefined][] = [];
    let given = 0;
    let spent = 0;
    let calls = 0;
    const principal = { userId };
    const call = { requestId: 'req_1', principal, endpoint: '/chat/completions', model: 'm', stream: false };

    async function callTogether({ process: at, count, reserved, cost }: Burst): Promise<string[]> {
      const service = services[at] as CreditService;
      const left = given - spent;
      const admitted = await Promise.all(
        Array.from({ length: count }, async () => {
          try {
            return await service.admit(call, reserved);
          } catch (error) {
            if (error instanceof GatewayError) return error;
            throw error;
          }
        }),
      );
      const codes: string[] = [];
      for (const answer of admitted) {
        if (answer instanceof GatewayError) {
          codes.push(answer.code);
          continue;
        }
        calls += 1;
        const record = { userId, model: 'm', inputTokens: cost, cachedInputTokens: 0, outputTokens: 0, images: 0 };
        answer.closed(record as never);
        unbooked.push([calls, cost, service.recorded(record)]);
        spent += cost;
        codes.push('admitted');
      }
      // as many as fit, and no others
      const fit = Math.min(count, Math.floor(Math.max(0, left) / reserved));
      const admittedCount = codes.filter((code) => code === 'admitted').length;
      expect(admittedCount, `${count} calls of ${reserved} with ${left} left`).to.equal(fit);
      return codes;
    }

    return {
      userId,
      services,
      callTogether,
      overdraft: () => spent - given,
      async topUp(at: number, credits: number) {
        given += credits;
        await services[at]?.topUp({ userId, credits, reference: `${given} ${calls}` });
      },
      async charge(at: number) {
        const records = unbooked.splice(0);
        const service = services[at] as CreditService;
        if (records.length > 0) await kept.charge(service, userId, records);
      },
      async restart(at: number) {
        // what was used is charged before the process is gone, as usage records are
        await this.charge(at);
        await services[at]?.close();
        services[at] = newService();
      },
      close: () => Promise.all(services.map((service) => service.close())),
    };
  }

  it('is refused by both when it has no credits left and makes 100 calls at once after ten minutes', async () => {
    const account = await open();
    await account.topUp(0, 2);
    await account.callTogether({ kind: 'calls', process: 0, count: 2, reserved: 1, cost: 1 });
    await account.charge(0);
    for (const at of [0, 1, 0]) {
      await idle();
      const codes = await account.callTogether({ kind: 'calls', process: at, count: 100, reserved: 1, cost: 1 });
      expect(new Set(codes)).to.deep.equal(new Set(['insufficient_credits']));
    }
    expect(account.overdraft()).to.equal(0);
    await account.close();
  });

  it('never overdraws, and has as many calls admitted as fit, in any order of calls, charges and restarts', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (steps) => {
        const account = await open();
        for (const one of steps) {
          if (one.kind === 'calls') await account.callTogether(one);
          else if (one.kind === 'top_up') await account.topUp(one.process, one.credits);
          else if (one.kind === 'charge') await account.charge(one.process);
          else if (one.kind === 'restart') await account.restart(one.process);
          else {
            // what has ended is charged within seconds
            await account.charge(0);
            await idle();
          }
          expect(account.overdraft()).to.be.at.most(0);
        }
        await account.close();
      }),
      { numRuns: 40, includeErrorInReport: true },
    );
  });

  it('is admitted again at once where it was topped up, and at the other', async () => {
    const account = await open();
    const one = { kind: 'calls', count: 1, reserved: 1, cost: 1 } as const;
    for (const at of [0, 1]) {
      expect(await account.callTogether({ ...one, process: at })).to.deep.equal(['insufficient_credits']);
    }
    await account.topUp(0, 20);
    expect(await account.callTogether({ ...one, process: 0 })).to.deep.equal(['admitted']);
    expect(await account.callTogether({ ...one, process: 1 })).to.deep.equal(['admitted']);
    await account.close();
  });
});

describe('an account that pays', () => {
  it('is admitted at once when its payment is booked', async () => {
    const upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1 } });
    const live = await startGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1, output: 1 } } },
    });
    try {
      const ask = async () =>
        (await live.call('POST', '/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }))
          .status;
      expect(await ask()).to.equal(402);
      const payment = { paymentId: 'pay_1', userId: 'usr_1', amount: 1, currency: 'usd', creditsAdded: 1 };
      await live.gateway.payments.completed(payment);
      expect(await ask()).to.equal(200);
    } finally {
      await live.close();
      await upstream.close();
    }
  });
});
