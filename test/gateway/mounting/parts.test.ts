import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { GatewayError, type UsageRecord } from '../../../src/index.ts';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

const question = { model: 'm', messages: [{ role: 'user' as const, content: 'Well?' }] };
const usage = { prompt_tokens: 1, completion_tokens: 1 };

describe('a gateway whose host has limits, billing and metering of its own', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let account: LiveAccount;
  const told: UsageRecord[] = [];
  let isBroke = false;

  before(async () => {
    database = await freshDatabase();
    ({ connection } = database);
    account = await startAccount(usage, {
      mongo: connection,
      usage: false,
      fixed: { limitEventWindow: 200 },
      onUsage: (record) => void told.push(record),
      onRequest() {
        if (isBroke) throw new GatewayError('insufficient_credits', 'The host says that nothing is left');
        return undefined;
      },
    });
  });
  after(async () => {
    await account?.close();
    await database.drop();
  });

  const call = (method: string, path: string, body?: object) => account.live.call(method, path, body);

  it('relays a call and reports its usage to the host, and stores, counts and limits nothing itself', async () => {
    const { response } = await account.client.chat.completions.create(question).withResponse();
    expect([...response.headers.keys()].filter((name) => name.startsWith('x-ratelimit'))).to.deep.equal([]);
    await until(() => told.length > 0);
    expect(told).to.have.length(1);
    expect(told[0]).to.include({ userId: 'usr_1', inputTokens: 1, outputTokens: 1, ending: 'complete' });
    // shows that nothing is stored
    await sleep(700);
    for (const name of ['usage', 'usage_counters', 'usage_periods', 'credit_ledger', 'credit_accounts', 'rates']) {
      expect(await connection.collection(`gateway_${name}`).countDocuments(), name).to.equal(0);
    }
    for (const path of ['/v1/usage', '/v1/credits']) {
      const { status, body } = await call('GET', path);
      expect([status, body.error.code], path).to.deep.equal([404, 'not_found']);
    }
    expect(account.live.gateway.credits).to.equal(undefined);
  });

  it('lets the host refuse a call before the upstream is called', async () => {
    isBroke = true;
    const refusal = await account.client.chat.completions.create(question).catch((error) => error);
    isBroke = false;
    expect(refusal).to.include({ status: 402, code: 'insufficient_credits' });
    expect(account.upstream.requests).to.have.length(1);
  });

  it('delivers events for what the host reports: payments, refused calls, balances', async () => {
    const inbox = await account.subscribe('payment.completed', 'rate_limit.exceeded', 'credits.low', 'usage.threshold');
    const payment = { paymentId: 'pay_1', userId: 'usr_1', amount: 1, currency: 'usd', creditsAdded: 10 };
    await account.live.gateway.payments.completed(payment);
    await account.live.gateway.limits.reportExceeded({ userId: 'usr_1', apiKeyId: null, limit: 5 });
    const low = { user_id: 'usr_1', credits_remaining: 1, threshold: 5 };
    await account.live.gateway.publish({ type: 'credits.low', userId: 'usr_1', data: low });
    const reached = { user_id: 'usr_1', threshold: 80, current_usage: 81, period: 'daily' };
    await account.live.gateway.publish({ type: 'usage.threshold', userId: 'usr_1', data: reached });
    const types = (await inbox.exactly(4)).map(({ type }) => type);
    expect(types).to.have.members(['payment.completed', 'rate_limit.exceeded', 'credits.low', 'usage.threshold']);
  });
});
