import { expect } from 'chai';
import OpenAI from 'openai';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { whileClockStands } from '../../support/clock.ts';

const question = { model: 'm', messages: [{ role: 'user' as const, content: 'Well?' }] };
/** Ends when the test says so. Milliseconds. */
const eventWindow = 600_000;

/** Every part on, as a stand-alone gateway would have it; whatever is caused goes through HTTP. */
describe('The gateway delivers, signed and only once,', () => {
  let account: LiveAccount;
  /** The one key that is limited. */
  let flooding = '';

  before(async () => {
    account = await startAccount(
      { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      {
        // a call costs 2 credits
        credits: {
          prices: { '*': { output: 2_000_000 } },
          expectedOutputTokens: 1,
          lowThreshold: 5,
        },
        quotas: { perUser: { unit: 'requests', monthly: 4 }, thresholds: [50] },
        limits: { perKey: ({ keyId }) => (keyId === flooding ? { requestsPerMinute: 0 } : undefined) },
        fixed: { limitEventWindow: eventWindow },
      },
    );
  });
  after(() => account?.close());

  const call = (method: string, path: string, body?: object) => account.live.call(method, path, body);

  async function newKey(): Promise<{ id: string; key: string }> {
    return (await call('POST', '/v1/api_keys', { name: 'laptop', scopes: ['models'] })).body;
  }

  it('api_key.created when a key is created over HTTP', async () => {
    const inbox = await account.subscribe('api_key.created');
    const { id } = await newKey();
    const [event] = await inbox.exactly(1);
    expect(event?.data).to.deep.equal({ api_key_id: id, name: 'laptop', user_id: 'usr_1' });
  });

  it('api_key.revoked when a key is revoked over HTTP, even three times', async () => {
    const { id } = await newKey();
    const inbox = await account.subscribe('api_key.revoked');
    for (let i = 0; i < 3; i += 1) expect((await call('DELETE', `/v1/api_keys/${id}`)).status).to.equal(200);
    const [event] = await inbox.exactly(1);
    expect(event?.data).to.deep.equal({ api_key_id: id, name: 'laptop', user_id: 'usr_1' });
  });

  const payment = { payment_id: 'pay_7', user_id: 'usr_1', amount: 25, currency: 'usd' };

  it('payment.failed when a failed payment is reported over HTTP, even three times', async () => {
    const inbox = await account.subscribe('payment.failed');
    const failed = { status: 'failed', ...payment, reason: 'card_declined' };
    for (let i = 0; i < 3; i += 1) expect((await call('POST', '/v1/payments', failed)).status).to.equal(201);
    const [event] = await inbox.exactly(1);
    expect(event?.data).to.deep.equal({ ...payment, reason: 'card_declined' });
  });

  it('payment.completed when a payment is reported over HTTP, even three times, and adds its credits once', async () => {
    const inbox = await account.subscribe('payment.completed');
    const completed = { status: 'completed', ...payment, credits_added: 20 };
    for (let i = 0; i < 3; i += 1) expect((await call('POST', '/v1/payments', completed)).status).to.equal(201);
    const [event] = await inbox.exactly(1);
    expect(event?.data).to.deep.equal({ ...payment, credits_added: 20 });
    expect((await call('GET', '/v1/credits')).body.credits_remaining).to.equal(20);
  });

  it('usage.threshold, credits.low and credits.depleted when an OpenAI client calls until no credits are left', async () => {
    const usage = await account.subscribe('usage.threshold');
    const low = await account.subscribe('credits.low');
    const depleted = await account.subscribe('credits.depleted');
    // with its own retries it never sees the 429 of a moment
    const client = account.client.withOptions({ maxRetries: 10 });
    let refusal: unknown;
    let calls = 0;
    for (; calls < 50 && !refusal; calls += 1) {
      await client.chat.completions.create(question).catch((error) => {
        refusal = error;
      });
    }
    expect(refusal).to.be.instanceOf(OpenAI.APIError);
    expect(refusal).to.include({ status: 402, code: 'insufficient_credits' });
    expect(calls).to.be.above(10);

    const [reached] = await usage.exactly(1);
    expect(reached?.data).to.deep.equal({ user_id: 'usr_1', threshold: 50, current_usage: 50, period: 'monthly' });
    const [fell] = await low.exactly(1);
    expect(fell?.data).to.include({ user_id: 'usr_1', threshold: 5 });
    expect(fell?.data.credits_remaining).to.be.below(5);
    const [empty] = await depleted.exactly(1);
    expect(empty?.data).to.deep.equal({ user_id: 'usr_1', credits_remaining: 0 });
  });

  it('rate_limit.exceeded when the rate limit refuses twenty calls in one window', async () => {
    const { id, key } = await newKey();
    flooding = id;
    const inbox = await account.subscribe('rate_limit.exceeded');
    const client = account.client.withOptions({ apiKey: key });
    // in one window
    const answers = await whileClockStands(() =>
      Promise.allSettled(Array.from({ length: 20 }, () => client.chat.completions.create(question))),
    );
    for (const answer of answers) {
      expect(answer.status === 'rejected' && answer.reason).to.be.instanceOf(OpenAI.RateLimitError);
    }
    await account.endLimitWindows(20);
    const [event] = await inbox.exactly(1);
    expect(event?.data).to.include({ user_id: 'usr_1', api_key_id: id, limit: 0, rejected_requests: 20 });
    expect(Date.parse(event?.data.window_end) - Date.parse(event?.data.window_start)).to.equal(eventWindow);
  });
});
