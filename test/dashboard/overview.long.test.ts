import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { type ErrorCode, scopes } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { eventually, until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { accessibilityProblems, closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

const completion = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
};
const model = (id: string) => ({ id, object: 'model', created: 1, owned_by: 'scripted' });
const models = { object: 'list', data: [model('text-embedding-3'), model("it's-a-chat")] };

describe('the first page of the dashboard', () => {
  closeBrowserAfterwards();
  let upstream: ScriptedUpstream;
  let good: TestReceiver;
  let gone: TestReceiver;
  let scene: Scene;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = (res, request) => json(200, request.path.endsWith('/models') ? models : completion)(res, request);
    [good, gone] = await Promise.all([startReceiver(200), startReceiver(410)]);
    scene = await startScene({
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits: {
        prices: { '*': { input: 1_000_000, output: 1_000_000 } },
        initialBalance: 500,
        expectedOutputTokens: 100,
      },
      retryDelays: [],
      deliveries: { disableOnGone: true },
      dashboard: {
        path: '/customers/dashboard',
        authenticate: ({ headers }) => (headers.cookie === 'host=usr_new' ? { userId: 'usr_new' } : null),
      },
    });
  });
  after(async () => {
    await scene?.close();
    await Promise.all([upstream?.close(), good?.stop(), gone?.stop()]);
  });

  const region = (page: Page, name: string) => page.getByRole('region', { name, exact: true });

  /** The paths that the page asks the API for from now on. */
  function recordReads(page: Page): string[] {
    const paths: string[] = [];
    page.on('request', (request) => {
      const [path] = /\/v1\/[^?]+/.exec(request.url()) ?? [];
      if (path) paths.push(path);
    });
    return paths;
  }

  /** What the command of the page sends, as a shell reads it. */
  function requestIn(command: string): { url: string; body: string } {
    const [url = '', ...rest] = [...command.matchAll(/'((?:[^']|'\\'')*)'/g)]
      .map(([, text = '']) => text.replaceAll("'\\''", "'"))
      .slice(1);
    return { url, body: rest.at(-1) ?? '' };
  }

  it('leads an account that has nothing from a key to a test event, and ticks each step', async () => {
    const { page, problems } = await scene.open();
    await until(() => problems.length > 0);
    const { hostname } = new URL(scene.dashboard);
    await page.context().addCookies([{ name: 'host', value: 'usr_new', domain: hostname, path: '/' }]);
    problems.length = 0;
    await page.reload();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const steps = region(page, 'Get started');
    await steps.getByText('0 of 4 done').waitFor();
    const names = ['Create an API key', 'Send a chat', 'Add a webhook', 'Send a test event'];
    expect(await steps.getByRole('heading', { level: 3 }).allTextContents()).to.deep.equal(
      names.map((name) => `To do: ${name}`),
    );
    expect(await steps.getByRole('button', { name: 'Send test event' }).getAttribute('title')).to.equal(
      'Add a webhook first',
    );
    expect(await accessibilityProblems(page)).to.deep.equal([]);

    await steps.getByRole('button', { name: 'Create key' }).click();
    const create = page.getByRole('dialog', { name: 'Create an API key' });
    await create.getByLabel('Name').fill('first');
    await create.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'Copy the key now' });
    const key = (await shown.locator('code').textContent()) ?? '';
    await shown.getByRole('button', { name: 'Done' }).click();
    await steps.getByRole('heading', { name: 'Done: Create an API key' }).waitFor();

    await steps.getByText(`${scene.live.url}/v1`, { exact: true }).waitFor();
    await steps.getByRole('button', { name: 'Copy base URL' }).waitFor();
    const command = steps.getByRole('region', { name: 'Command' }).locator('pre');
    const { url, body } = requestIn(
      (await eventually(
        () => command.textContent(),
        (text) => text?.includes('chat"') === true,
      )) ?? '',
    );
    expect(url).to.equal(`${scene.live.url}/v1/chat/completions`);
    expect(JSON.parse(body)).to.include({ model: "it's-a-chat" });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    expect((await fetch(url, { method: 'POST', headers, body })).status).to.equal(200);
    await steps.getByRole('heading', { name: 'Done: Send a chat' }).waitFor();

    await steps.getByRole('button', { name: 'Add webhook' }).click();
    const add = page.getByRole('dialog', { name: 'Add a webhook' });
    await add.getByLabel('URL').fill(good.url);
    await add.getByLabel('credits.low').check();
    await add.getByRole('button', { name: 'Add webhook' }).click();
    await page.getByRole('heading', { name: new URL(good.url).host }).waitFor();
    await page.getByRole('link', { name: 'Overview' }).click();
    await steps.getByText('3 of 4 done').waitFor();

    // out of the way, and back again
    await steps.getByText('Get started').click();
    await page.reload();
    await steps.getByText('3 of 4 done').waitFor();
    expect(await steps.getByRole('button').count()).to.equal(0);
    await steps.getByText('Get started').click();

    await steps.getByRole('button', { name: 'Send test event' }).click();
    const test = page.getByRole('dialog', { name: 'Send test event' });
    await test.getByRole('button', { name: 'Send test event' }).click();
    await test.getByText('HTTP 200').first().waitFor();
    await test.getByRole('button', { name: 'Close' }).last().click();
    await steps.waitFor({ state: 'detached' });
    await region(page, 'Usage').getByText('Requests today').waitFor();

    // no step comes back because what was done is gone by now
    const { gateway } = scene.live;
    for (const { id } of (await gateway.webhooks.list('usr_new')).webhooks)
      await gateway.webhooks.remove('usr_new', id);
    const asked = recordReads(page);
    await page.reload();
    await region(page, 'Webhooks').getByText('No webhooks yet.').waitFor();
    expect(asked).to.not.include('/v1/api_keys');
    expect(await steps.count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it('asks for the state of ten webhooks at most, and one that is deleted meanwhile is left out', async () => {
    const { gateway } = scene.live;
    const { key } = await gateway.keys.create({ userId: 'usr_many', scopes: ['webhooks'] });
    for (let i = 0; i < 12; i += 1)
      await gateway.webhooks.create('usr_many', { url: good.url, events: ['credits.low'] });
    const { page } = await scene.open();
    const asked = recordReads(page);
    let deleted: string | undefined;
    await page.route(/\/v1\/webhooks\/wh_\w+$/, async (route) => {
      const id = route.request().url().split('/').at(-1) ?? '';
      deleted ??= id;
      if (id === deleted) await gateway.webhooks.remove('usr_many', id);
      await route.continue();
    });
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    const webhooks = region(page, 'Webhooks');
    await webhooks.getByText('Idle: 9').waitFor();
    await webhooks.getByText('of the first 9 webhooks').waitFor();
    expect(await webhooks.getByRole('alert').count()).to.equal(0);
    expect(asked.filter((path) => path.startsWith('/v1/webhooks/'))).to.have.length(10);
  });

  it('shows what is used and left, what fails, and what the codes of errors mean', async () => {
    const { gateway } = scene.live;
    const { key } = await gateway.keys.create({ userId: 'usr_2', scopes: scopes.filter((scope) => scope !== 'admin') });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const chat = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Well?' }] });
    await fetch(`${scene.live.url}/v1/chat/completions`, { method: 'POST', headers, body: chat });
    const add = (url: string) => gateway.webhooks.create('usr_2', { url, events: ['credits.low'] });
    const [, bad] = [await add(good.url), await add(gone.url)];
    const data = { credits_remaining: 1, threshold: 2, user_id: 'usr_2' };
    await gateway.publish({ type: 'credits.low', userId: 'usr_2', data });
    await until(async () => (await gateway.webhooks.get('usr_2', bad.id)).disabled);

    const { page, problems } = await scene.open();
    await page.getByLabel('API key').fill(key);
    problems.length = 0;
    await page.getByRole('button', { name: 'Sign in' }).click();
    const usage = region(page, 'Usage');
    // who reloads before the key is accepted is signed out
    await usage.waitFor();
    const fact = (name: string) =>
      usage.locator('dl > div', { has: page.getByRole('term').filter({ hasText: name }) }).getByRole('definition');
    await eventually(
      async () => {
        await page.reload();
        return fact('Credits left').textContent();
      },
      (text) => text?.trim() === '493',
    );
    expect(await fact('Requests today').textContent()).to.equal('11 in 14 days');
    expect(await fact('Tokens today').textContent()).to.equal('77 in 14 days');
    expect(await fact('Cost in credits today').textContent()).to.equal('77 in 14 days');
    await usage.getByRole('img', { name: 'Requests by day' }).waitFor();

    const webhooks = region(page, 'Webhooks');
    for (const state of ['Healthy: 1', 'Disabled: 1']) await webhooks.getByText(state).waitFor();
    const row = webhooks.getByRole('row').filter({ hasText: bad.id });
    await row.getByText('HTTP 410').waitFor();
    expect(await webhooks.getByRole('row').count()).to.equal(2);
    const failed = region(page, 'Failed deliveries');
    await failed.getByText('HTTP 410').waitFor();
    expect(await accessibilityProblems(page)).to.deep.equal([]);

    await failed.getByRole('link', { name: 'credits.low' }).click();
    await page.getByRole('region', { name: 'Attempts' }).getByRole('link', { name: 'http_410' }).click();
    await page.getByRole('heading', { name: 'http_410' }).waitFor();
    await page.getByText('The receiver answered with this status, which is not 2xx.').waitFor();
    await page.getByRole('link', { name: 'All error codes' }).click();
    await page.getByRole('link', { name: 'webhook_not_found' satisfies ErrorCode }).waitFor();

    await page.goto(`${scene.dashboard}#/webhooks/wh_of_nobody`);
    await page.getByRole('alert').getByRole('link', { name: 'webhook_not_found' }).click();
    await page.getByText('The account has no webhook with this id.').waitFor();
    await page.getByText('not_found_error').waitFor();
    expect(problems.filter((problem) => !problem.includes('status of 404'))).to.deep.equal([]);
  });
});

describe('the first page of the dashboard where no usage is counted', () => {
  closeBrowserAfterwards();

  it('has the other steps and cards', async () => {
    const scene = await startScene({ usage: false });
    try {
      const { page, problems } = await scene.signIn();
      const steps = page.getByRole('region', { name: 'Get started', exact: true });
      await steps.getByText('1 of 3 done').waitFor();
      expect(await steps.getByRole('heading', { level: 3 }).allTextContents()).to.deep.equal([
        'Done: Create an API key',
        'To do: Add a webhook',
        'To do: Send a test event',
      ]);
      await page.getByText('No webhooks yet.').waitFor();
      expect(await page.getByRole('heading', { level: 2 }).allTextContents()).to.not.include('Usage');
      expect(await page.getByRole('navigation').getByRole('link', { name: 'Usage' }).count()).to.equal(0);
      expect(problems).to.deep.equal([]);
    } finally {
      await scene.close();
    }
  });
});
