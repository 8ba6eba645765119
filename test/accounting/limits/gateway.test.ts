import { expect } from 'chai';
import OpenAI from 'openai';
import { type Inbox, type LiveAccount, startAccount } from '../../support/account.ts';
import { whileClockStands } from '../../support/clock.ts';
import type { LiveGateway } from '../../support/gateway.ts';
import { json, type ScriptedUpstream } from '../../support/upstream.ts';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };
const usage = { prompt_tokens: 8, completion_tokens: 2 };
/** Ends when the test says so. Milliseconds. */
const eventWindow = 600_000;

describe('an OpenAI client that exceeds its limits', () => {
  let account: LiveAccount;
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let client: OpenAI;
  let inbox: Inbox;

  before(async () => {
    account = await startAccount(usage, {
      limits: { perKey: { requestsPerMinute: 5 }, perUser: { tokensPerMinute: 1_000 } },
      fixed: { limitEventWindow: eventWindow },
    });
    ({ upstream, live, client } = account);
    inbox = await account.subscribe('rate_limit.exceeded');
  });

  after(() => account?.close());

  it('reads its limits in every response, is refused with 429, and its account gets one signed event', async () => {
    await client.get('/webhooks');
    // in one minute and one window
    await whileClockStands(async () => {
      const { response } = await client.chat.completions.create(ask).withResponse();
      expect(response.headers.get('x-ratelimit-limit-requests')).to.equal('5');
      expect(response.headers.get('x-ratelimit-remaining-requests')).to.equal('4');
      expect(response.headers.get('x-ratelimit-reset-requests')).to.match(/^\d+(\.\d+)?m?s$/);
      expect(response.headers.get('x-ratelimit-limit-tokens')).to.equal('1000');
      expect(Number(response.headers.get('x-ratelimit-remaining-tokens'))).to.be.within(900, 999);

      upstream.script = json(422, { error: { message: 'no', type: 'invalid', param: null, code: null } });
      const failed = await client.chat.completions.create(ask).catch((error) => error);
      expect(failed.headers.get('x-ratelimit-remaining-requests')).to.equal('3');
      upstream.script = json(200, { choices: [{}], usage });

      const called = upstream.requests.length;
      const answers = await Promise.allSettled(Array.from({ length: 20 }, () => client.chat.completions.create(ask)));
      expect(upstream.requests.length - called).to.equal(3);
      const refusals = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
      expect(refusals).to.have.length(17);
      for (const refusal of refusals) {
        expect(refusal).to.be.instanceOf(OpenAI.RateLimitError);
        expect(refusal).to.include({ code: 'rate_limit_exceeded', type: 'rate_limit_error' });
        expect(Number(refusal.headers.get('retry-after'))).to.be.within(1, 60);
        expect(Number(refusal.headers.get('retry-after-ms'))).to.be.within(1, 60_000);
        expect(refusal.headers.get('x-ratelimit-remaining-requests')).to.equal('0');
      }
    });

    await account.endLimitWindows(17);
    const [event] = await inbox.exactly(1);
    expect(event?.type).to.equal('rate_limit.exceeded');
    expect(event?.data).to.include({ user_id: 'usr_1', limit: 5, rejected_requests: 17 });
    expect(live.key).to.contain(event?.data.api_key_id.slice('key_'.length));
    expect(Date.parse(event?.data.window_end) - Date.parse(event?.data.window_start)).to.equal(eventWindow);
  });

  it('gets the same event for limits that the host reports', async () => {
    const report = { userId: 'usr_1', apiKeyId: 'key_of_host', limit: 100, rejectedRequests: 3 };
    await live.gateway.limits.reportExceeded(report);
    await account.endLimitWindows(3);
    const [, event] = await inbox.exactly(2);
    expect(event?.data).to.include({ api_key_id: 'key_of_host', rejected_requests: 3 });
  });
});
