import { expect } from 'chai';
import type { Locator } from 'playwright-core';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { accessibilityProblems, closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

const answer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: {
    prompt_tokens: 3,
    completion_tokens: 4,
    completion_tokens_details: { reasoning_tokens: 2 },
    total_tokens: 7,
  },
};

describe('the account pages of the dashboard', () => {
  closeBrowserAfterwards();
  let upstream: ScriptedUpstream;
  let scene: Scene;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, answer);
    scene = await startScene({
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1_000_000, output: 1_000_000 } }, expectedOutputTokens: 100 },
    });
    await scene.live.gateway.credits?.topUp({ userId: 'usr_1', credits: 500, reference: 'welcome' });
  });
  after(async () => {
    await scene?.close();
    await upstream.close();
  });

  const scopesIn = (dialog: Locator) => dialog.getByRole('checkbox').locator('xpath=..').locator('b').allTextContents();

  it('create a key, show it once, edit its budgets and revoke it', async () => {
    const { page, problems } = await scene.signIn('#/keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const create = page.getByRole('dialog', { name: 'Create an API key' });
    await create.getByLabel('Name').fill('for the tests');
    expect(await scopesIn(create)).to.deep.equal(['models', 'webhooks', 'keys']);
    await create.getByRole('checkbox', { name: /^webhooks/ }).check();
    await create.getByLabel('Credits in total').fill('2.5');
    await create.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'Copy the key now' });
    const key = (await shown.locator('code').textContent()) ?? '';
    const used = await fetch(`${scene.live.url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    expect(used.status).to.equal(200);
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row').filter({ hasText: 'for the tests' }).getByText('webhooks').waitFor();
    const budget = page.getByRole('row').filter({ hasText: 'for the tests' }).getByText('0 of 2.5 credits in total');
    await budget.waitFor();
    expect(await page.content()).to.not.include(key);

    await page.getByRole('button', { name: 'Edit the budgets of for the tests' }).click();
    const edit = page.getByRole('dialog', { name: 'Budgets of for the tests' });
    expect(await edit.getByLabel('Credits in total').inputValue()).to.equal('2.5');
    await edit.getByLabel('Credits in total').fill('');
    await edit.getByLabel('Requests a day').fill('1e16');
    await edit.getByRole('button', { name: 'Save' }).click();
    await edit.getByRole('alert').getByText('whole number').waitFor();
    await edit.getByLabel('Requests a day').fill('50');
    await edit.getByLabel('Tokens a month').fill('1000');
    expect(await accessibilityProblems(page)).to.deep.equal([]);
    await edit.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('row').filter({ hasText: 'for the tests' }).getByText('0 of 50 requests today').waitFor();
    const { data } = (await scene.live.call('GET', '/v1/api_keys')).body;
    const stored = data.find(({ name }: { name: string }) => name === 'for the tests').budgets;
    expect(stored).to.have.length(2);
    expect(stored[0]).to.include({ period: 'day', requests: 50 }).and.to.not.have.any.keys('tokens', 'credits');
    expect(stored[1]).to.include({ period: 'month', tokens: 1_000 });

    await page.getByRole('button', { name: 'Revoke for the tests' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await page.getByRole('row').filter({ hasText: 'for the tests' }).getByText('Revoked').waitFor();
    const refused = await fetch(`${scene.live.url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    expect(refused.status).to.equal(401);
    // a browser itself reports each refusal
    expect(problems.filter((problem) => !problem.includes('status of 400'))).to.deep.equal([]);
  });

  it('offer for a new key only what the API accepts from the signed-in key', async () => {
    const expiresAt = new Date(Date.now() + 10 * 86_400_000);
    const own = await scene.live.gateway.keys.create({
      userId: 'usr_1',
      name: 'limited',
      scopes: ['models', 'webhooks', 'keys'],
      models: ['m'],
      budgets: [{ period: 'month', tokens: 100 }],
      expiresAt,
    });
    const { page, problems } = await scene.signIn('#/keys', { key: own.key });
    // this key may do no more than itself; the first of the account has every scope
    await page.getByRole('button', { name: 'Revoke limited' }).waitFor();
    expect(await page.getByRole('button', { name: /^(Revoke|Edit)/ }).count()).to.equal(1);

    await page.getByRole('button', { name: 'Create key' }).click();
    const create = page.getByRole('dialog', { name: 'Create an API key' });
    expect(await scopesIn(create)).to.deep.equal(['webhooks', 'keys']);
    const ends = create.getByLabel('Ends').locator('option');
    expect(await ends.allTextContents()).to.deep.equal(['With your own key', 'After 1 day']);
    await create.getByLabel('Name').fill('of the limited one');
    await create.getByRole('checkbox', { name: /^webhooks/ }).check();
    await create.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('dialog', { name: 'Copy the key now' }).waitFor();
    const { data } = (await scene.live.call('GET', '/v1/api_keys')).body;
    const made = data.find(({ name }: { name: string }) => name === 'of the limited one');
    expect(made).to.deep.include({ scopes: ['webhooks'], models: ['m'], expires_at: expiresAt.toISOString() });

    await page.goto(`${scene.dashboard}#/usage`);
    await page.getByRole('region', { name: 'Credits' }).waitFor();
    expect(await page.getByRole('button', { name: 'Edit the budgets of the account' }).count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it('list API keys from the first one on, a page at a time', async () => {
    const { keys } = scene.live.gateway;
    const { key } = await keys.create({ userId: 'usr_3', name: 'the oldest', scopes: ['keys'] });
    for (let n = 1; n <= 50; n += 1) await keys.create({ userId: 'usr_3', name: `key ${n}` });
    const { page, problems } = await scene.signIn('#/keys', { key });
    await page.getByText('the oldest').waitFor();
    await page.getByRole('link', { name: 'Next', exact: true }).click();
    await page.getByText('key 50', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'First', exact: true }).click();
    await page.getByText('the oldest').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('show usage by model, budgets and the credits left', async () => {
    const called = await scene.live.call('POST', '/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'Well?' }],
    });
    expect(called.status).to.equal(200);
    const left = async () => (await scene.live.call('GET', '/v1/credits')).body.credits_remaining;
    await until(async () => (await left()) === 493);
    await scene.live.gateway.budgets?.set('usr_1', [{ period: 'month', tokens: 100 }]);
    const { page, problems } = await scene.signIn('#/usage');
    const budgets = page.getByRole('region', { name: 'Budgets' });
    await budgets.getByText('7 of 100 tokens this month').waitFor();
    await budgets.getByRole('button', { name: 'Edit the budgets of the account' }).click();
    const edit = page.getByRole('dialog', { name: 'Budgets of the account usr_1' });
    await edit.getByLabel('Tokens a month').fill('200');
    await edit.getByLabel('Credits in total').fill('0.5');
    await edit.getByRole('button', { name: 'Save' }).click();
    await budgets.getByText('7 of 200 tokens this month').waitFor();
    await budgets.getByText('7 of 0.5 credits in total').waitFor();
    await scene.live.gateway.budgets?.set('usr_1', []);
    await page.getByRole('region', { name: 'Credits' }).getByText('493').waitFor();
    const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'm', exact: true }) });
    await row.waitFor();
    const used = ['Requests 1', 'Tokens in 3', 'Tokens out 4', 'Reasoning 2', 'Images 0', 'Credits 7'];
    expect(await row.getByRole('cell').allTextContents()).to.deep.equal(used);
    const chart = (name: string) => page.getByRole('img', { name: new RegExp(`^${name}`) });
    await chart('Requests by day and model').waitFor();
    await page.getByText('The same as a table').click();
    const today = new Date().toISOString().slice(0, 10);
    const day = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: today }) });
    expect(await day.getByRole('cell').allTextContents()).to.deep.equal(['1']);

    await page.getByRole('combobox', { name: 'Chart' }).selectOption('Cost in credits');
    await chart('Cost in credits by day and model').waitFor();
    // both at once: what is chosen second is added to what the address says, not to what the page was drawn for
    await page.evaluate(`{
      document.querySelector('nav[aria-label="By"] a:nth-of-type(2)').click();
      const days = document.querySelector('select:has(option[value="7"])');
      days.value = '7';
      days.dispatchEvent(new Event('change', { bubbles: true }));
    }`);
    await chart('Cost in credits by day and key').waitFor();
    const { data } = (await scene.live.call('GET', '/v1/usage?group_by=key')).body;
    expect(data[0].credits).to.equal(7);
    const [{ name }] = (await scene.live.call('GET', '/v1/api_keys')).body.data;
    await page.getByRole('rowheader', { name: name || data[0].api_key_id }).waitFor();
    expect(await accessibilityProblems(page)).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
  });
});
