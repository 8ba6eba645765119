import { expect } from 'chai';
import type OpenAI from 'openai';
import { type Inbox, type LiveAccount, startAccount } from '../../support/account.ts';
import type { LiveGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];

describe('an OpenAI client that uses up its quota', () => {
  let account: LiveAccount;
  let live: LiveGateway;
  let client: OpenAI;
  let inbox: Inbox;

  before(async () => {
    account = await startAccount(
      {
        prompt_tokens: 15,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 2 },
      },
      { quotas: { perUser: (userId) => (userId === 'usr_1' ? { unit: 'tokens', monthly: 200 } : undefined) } },
    );
    ({ live, client } = account);
    inbox = await account.subscribe('usage.threshold');
  });

  after(() => account?.close());

  const usage = async (query = '') => (await live.call('GET', `/v1/usage${query}`)).body;

  async function counted(requests: number) {
    await until(async () => (await usage()).data[0]?.requests === requests);
  }

  it('has each threshold published once, signed, and is not refused', async () => {
    for (let i = 0; i < 4; i += 1) await client.chat.completions.create({ model: 'm', messages });
    await Promise.all(Array.from({ length: 8 }, () => client.chat.completions.create({ model: 'n', messages })));
    await counted(12);
    const events = [...(await inbox.exactly(2))];
    events.sort((a, b) => a.data.threshold - b.data.threshold);
    expect(events.map(({ type, data }) => ({ type, ...data }))).to.deep.equal([
      { type: 'usage.threshold', user_id: 'usr_1', threshold: 80, current_usage: 80, period: 'monthly' },
      { type: 'usage.threshold', user_id: 'usr_1', threshold: 100, current_usage: 100, period: 'monthly' },
    ]);
  });

  it('reads its usage by day, model and key, and that of no other account', async () => {
    await counted(12);
    const today = new Date().toISOString().slice(0, 10);
    const sums = (requests: number) => ({
      requests,
      input_tokens: requests * 15,
      cached_input_tokens: requests * 4,
      output_tokens: requests * 5,
      reasoning_tokens: requests * 2,
      images: 0,
      seconds: 0,
      characters: 0,
      uploaded_bytes: 0,
      downloaded_bytes: 0,
    });
    expect((await usage()).data).to.deep.equal([{ day: today, ...sums(12) }]);
    expect((await usage('?group_by=model')).data).to.deep.equal([
      { model: 'm', ...sums(4) },
      { model: 'n', ...sums(8) },
    ]);
    const byKey = (await usage(`?group_by=day,key&from=${today}&to=${today}`)).data;
    expect(byKey).to.have.length(1);
    expect(byKey[0]).to.include({ day: today, ...sums(12) });
    expect(live.key).to.contain(byKey[0].api_key_id.slice('key_'.length));
    expect((await usage('?from=2020-01-01&to=2020-01-31')).data).to.deep.equal([]);
    const other = await live.gateway.keys.create({ userId: 'usr_2' });
    const response = await fetch(`${live.url}/v1/usage`, { headers: { authorization: `Bearer ${other.key}` } });
    expect(((await response.json()) as { data: unknown[] }).data).to.deep.equal([]);
  });

  it('is told which query parameter is wrong', async () => {
    const wrong: [query: string, param: string, code: string][] = [
      ['from=2026-02-30', 'from', 'invalid_value'],
      ['to=yesterday', 'to', 'invalid_value'],
      ['from=2026-02-02&to=2026-02-01', 'from', 'invalid_value'],
      ['from=2024-01-01&to=2026-01-01', 'from', 'invalid_value'],
      ['group_by=user', 'group_by', 'invalid_value'],
      ['group_by=day,', 'group_by', 'invalid_value'],
      ['user_id=usr_2', 'user_id', 'unknown_parameter'],
    ];
    for (const [query, param, code] of wrong) {
      const { status, body } = await live.call('GET', `/v1/usage?${query}`);
      expect(status, query).to.equal(400);
      expect(body.error, query).to.include({ param, code });
    }
    const { body } = await live.call('GET', '/v1/usage?group_by=user');
    expect(body.error.message).to.equal('group_by: must be one to three of day, model and key, separated by commas');
  });
});
