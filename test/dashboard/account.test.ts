import { expect } from 'chai';
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
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
};

describe("an account's keys, usage and credits in the dashboard", function () {
  closeBrowserAfterwards();
  this.timeout(120_000);
  let upstream: ScriptedUpstream;
  let scene: Scene;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, answer);
    scene = await startScene({
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1_000_000, output: 1_000_000 } } },
    });
    await scene.live.gateway.credits?.topUp({ userId: 'usr_1', credits: 500, reference: 'welcome' });
  });
  after(async () => {
    await scene?.close();
    await upstream.close();
  });

  it('has keys made, shown once, and revoked', async () => {
    const { page, problems } = await scene.signIn('#/keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const create = page.getByRole('dialog', { name: 'Create an API key' });
    await create.getByLabel('Name').fill('for the tests');
    await create.getByRole('checkbox', { name: /^webhooks/ }).check();
    await create.getByLabel('At most').fill('2.5');
    await create.getByLabel('In which period').selectOption('total');
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

    await page.getByRole('button', { name: 'Revoke for the tests' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await page.getByRole('row').filter({ hasText: 'for the tests' }).getByText('Revoked').waitFor();
    const refused = await fetch(`${scene.live.url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    expect(refused.status).to.equal(401);
    expect(problems).to.deep.equal([]);
  });

  it('has usage by model, and credits that are left', async () => {
    const called = await scene.live.call('POST', '/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'Well?' }],
    });
    expect(called.status).to.equal(200);
    const left = async () => (await scene.live.call('GET', '/v1/credits')).body.credits_remaining;
    await until(async () => (await left()) === 493);
    await scene.live.gateway.budgets?.set('usr_1', [{ period: 'month', tokens: 100 }]);
    const { page, problems } = await scene.signIn('#/usage');
    await page.getByRole('region', { name: 'Budgets' }).getByText('7 of 100 tokens this month').waitFor();
    await page.getByRole('region', { name: 'Credits' }).getByText('493').waitFor();
    const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'm', exact: true }) });
    await row.waitFor();
    const used = ['Requests 1', 'Tokens in 3', 'Tokens out 4', 'Images 0', 'Credits 7'];
    expect(await row.getByRole('cell').allTextContents()).to.deep.equal(used);
    const chart = (name: string) => page.getByRole('img', { name: new RegExp(`^${name}`) });
    await chart('Requests by day and model').waitFor();
    await page.getByText('The same as a table').click();
    const today = new Date().toISOString().slice(0, 10);
    const day = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: today }) });
    expect(await day.getByRole('cell').allTextContents()).to.deep.equal(['1']);

    await page.getByRole('combobox', { name: 'Chart' }).selectOption('Cost in credits');
    await chart('Cost in credits by day and model').waitFor();
    await page.getByRole('navigation', { name: 'By' }).getByRole('link', { name: 'By key' }).click();
    await page.getByRole('combobox', { name: 'Days' }).selectOption('Last 7 days');
    await chart('Cost in credits by day and key').waitFor();
    const { data } = (await scene.live.call('GET', '/v1/usage?group_by=key')).body;
    expect(data[0].credits).to.equal(7);
    const [{ name }] = (await scene.live.call('GET', '/v1/api_keys')).body.data;
    await page.getByRole('rowheader', { name: name || data[0].api_key_id }).waitFor();
    expect(await accessibilityProblems(page)).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
  });
});
