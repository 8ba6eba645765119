import { expect } from 'chai';
import type { Page } from 'playwright-core';
import type { NewApiKey } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually, until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { accessibilityProblems, closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

const completion = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
};
const secret = 'whsec_a-secret-that-nobody-may-see';
const upstreamKey = 'sk-upstream-that-nobody-may-see';
const views = ['status', 'accounts', 'accounts/usr_2', 'failing-webhooks', 'refusals', 'find/usr_2'];
const reads = [
  'accounts',
  'accounts/usr_2',
  'webhooks',
  'refusals',
  'search?id=usr_2',
  'processes',
  'upstreams',
  'backlog',
];

describe("the operator's page of the dashboard", () => {
  closeBrowserAfterwards();
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  let gone: TestReceiver;
  let scene: Scene;
  /** Of the operator, with the scope `admin` alone. */
  let operator: NewApiKey;
  /** Of the account usr_2, with what customers have. */
  let customer: NewApiKey;
  /** Webhooks of usr_2: one fails, one has been disabled. */
  let failing: string;
  let disabled: string;
  let eventId: string;

  const ask = (path: string, key: string, body?: unknown) =>
    fetch(scene.live.url + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  const chat = async (key: string) =>
    (await ask('/v1/chat/completions', key, { model: 'm', messages: [{ role: 'user', content: 'Well?' }] })).status;
  const signIn = (place?: string, key = operator.key) => scene.signIn(place, { key });
  const region = (page: Page, name: string) => page.getByRole('region', { name, exact: true });
  const navigation = (page: Page) => page.getByRole('navigation', { name: 'Operator' });

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, completion);
    gone = await startReceiver(410);
    scene = await startScene({
      mongo: database.connection,
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl, apiKey: upstreamKey }],
      credits: { prices: { '*': { input: 1_000_000, output: 1_000_000 } }, expectedOutputTokens: 100 },
      deliveries: { disableOnGone: true },
      limits: { perUser: { requestsPerMinute: 600 } },
    });
    const { gateway } = scene.live;
    operator = await gateway.keys.create({ userId: 'usr_operator', scopes: ['admin'] });
    customer = await gateway.keys.create({ userId: 'usr_2', scopes: ['models', 'webhooks', 'keys'] });
    await gateway.credits?.topUp({ userId: 'usr_2', credits: 500, reference: 'welcome' });
    const add = (type: string) => gateway.webhooks.create('usr_2', { url: gone.url, secret, events: [type] });
    ({ id: disabled } = await add('credits.low'));
    ({ id: failing } = await add('payment.failed'));
    const at = new Date();
    const failingSince = new Date(at.getTime() - 600_000);
    const lastFailure = { at, deliveryId: 'dlv_1', status: 503, code: 'http_503' };
    const since = { failingSince, reportedFailingSince: failingSince };
    const health = { _id: failing, failures: 3, ...since, lastFailure, updatedAt: at };
    await database.connection.collection<typeof health>('gateway_health').insertOne(health);
    const data = { credits_remaining: 1, threshold: 2, user_id: 'usr_2' };
    ({ id: eventId } = await gateway.publish({ type: 'credits.low', userId: 'usr_2', data }));
    expect(await chat(customer.key)).to.equal(200);
    expect(await chat(scene.live.key)).to.equal(402);
    await until(async () => (await gateway.webhooks.get('usr_2', disabled)).disabled);
    // biome-ignore lint/suspicious/noExplicitAny: each line knows the shape it asks for
    const read = async (path: string): Promise<any> => (await ask(path, customer.key)).json();
    await until(async () => (await read('/v1/usage')).data.length > 0);
    await until(async () => (await read('/v1/credits')).credits_remaining === 493);
  });
  after(async () => {
    await scene?.close();
    await Promise.all([upstream?.close(), gone?.stop(), database?.drop()]);
  });

  it('is hidden from a key without the scope admin, and the API refuses it', async () => {
    const { page, problems } = await signIn('', customer.key);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    expect(await navigation(page).count()).to.equal(0);
    for (const view of views) {
      await page.goto(`${scene.dashboard}#/${view}`);
      await page.getByText('There is no such page').waitFor();
      await page.goto(`${scene.dashboard}#/usage`);
      await page.getByRole('heading', { name: 'Usage' }).waitFor();
    }
    expect(asked.filter((address) => address.includes('/v1/admin/'))).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
    for (const base of ['', '/dashboard']) {
      const answers = await Promise.all(reads.map((read) => ask(`${base}/v1/admin/${read}`, customer.key)));
      for (const { url, status } of answers) expect(status, url).to.equal(403);
    }
  });

  it('shows the backlog, the upstreams and the processes first', async () => {
    const { page, problems } = await signIn();
    await page.getByRole('heading', { name: 'Status' }).waitFor();
    const links = await navigation(page).getByRole('link').allTextContents();
    expect(links).to.deep.equal(['Status', 'Accounts', 'Failing webhooks', 'Refusals']);
    await navigation(page).getByText('Operator').waitFor();
    expect(await page.getByRole('navigation', { name: 'Views' }).count()).to.equal(0);
    await region(page, 'Backlog').getByText('Deliveries due').waitFor();
    const row = region(page, 'Upstreams').getByRole('row').filter({ hasText: 'scripted' });
    await row.getByText('Closed').waitFor();
    await row.getByText('Requests 1').waitFor();
    await region(page, 'Processes').getByText('Live').waitFor();
    await region(page, 'Processes').getByText(String(process.pid)).waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('lists accounts by the prefix of their ids, with the keyboard alone', async () => {
    const { page, problems } = await signIn('#/accounts');
    const rows = region(page, 'By id').getByRole('rowheader');
    await until(async () => (await rows.count()) === 3);
    expect(await rows.allTextContents()).to.deep.equal(['usr_1', 'usr_2', 'usr_operator']);

    await page.getByLabel('Id begins with').focus();
    await page.keyboard.type('usr_2');
    await page.keyboard.press('Enter');
    await until(async () => (await rows.count()) === 1);
    const row = page.getByRole('row').filter({ hasText: 'usr_2' });
    expect(await row.getByRole('cell').allTextContents()).to.deep.equal([
      'Working API keys 1',
      'Webhooks 2 1 failing 1 disabled',
      'Requests 1',
      'Tokens 7',
      'Cost 7',
      'Credits left 493',
    ]);
    await page.getByRole('link', { name: 'usr_2' }).focus();
    await page.keyboard.press('Enter');
    // the link that had the focus has the same text
    const focused = () =>
      page.evaluate<string>("document.activeElement.tagName + ' ' + document.activeElement.textContent");
    await eventually(focused, (element) => element === 'H1 usr_2');
    expect(problems).to.deep.equal([]);
  });

  it('shows an account, changes its budgets and those of its keys, and revokes a key', async () => {
    const { gateway } = scene.live;
    const { id, key } = await gateway.keys.create({ userId: 'usr_2', name: 'leaked', scopes: ['models'] });
    const { page, problems } = await signIn('#/accounts/usr_2');
    const fact = (name: string) =>
      page.locator('.facts > div', { has: page.getByRole('term').filter({ hasText: name }) }).getByRole('definition');
    expect(await fact('Requests this month').textContent()).to.equal('1');
    expect(await fact('Rate limit of the account').textContent()).to.equal('600 requests a minute');
    expect(await fact('Rate limit of each key').textContent()).to.equal('None');
    const webhooks = region(page, 'Webhooks').getByRole('row');
    await webhooks.filter({ hasText: failing }).getByText('HTTP 503').waitFor();
    await webhooks.filter({ hasText: disabled }).getByText('HTTP 410').waitFor();

    await page.getByRole('button', { name: 'Edit the budgets of the account' }).click();
    const ofAccount = page.getByRole('dialog', { name: 'Budgets of the account usr_2' });
    await ofAccount.getByLabel('Tokens a month').fill('200');
    await ofAccount.getByRole('button', { name: 'Save' }).click();
    await region(page, 'Budgets').getByText('7 of 200 tokens this month').waitFor();

    await page.getByRole('button', { name: 'Edit the budgets of leaked' }).click();
    const ofKey = page.getByRole('dialog', { name: 'Budgets of leaked' });
    await ofKey.getByLabel('Requests a day').fill('5');
    await ofKey.getByRole('button', { name: 'Save' }).click();
    const row = region(page, 'API keys').getByRole('row').filter({ hasText: id });
    await row.getByText('0 of 5 requests today').waitFor();

    await page.getByRole('button', { name: 'Revoke leaked' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await row.getByText('Revoked').waitFor();
    expect(await chat(key)).to.equal(401);
    expect(problems).to.deep.equal([]);
  });

  it('shows which webhooks fail or are disabled, whose they are, and why', async () => {
    const { page, problems } = await signIn('#/failing-webhooks');
    const row = (id: string) => page.getByRole('row').filter({ hasText: id });
    await row(failing).getByText('HTTP 503').waitFor();
    expect(await row(disabled).count()).to.equal(0);
    await page.getByRole('link', { name: 'Disabled' }).click();
    await row(disabled).getByText('HTTP 410').waitFor();
    await row(disabled).getByRole('link', { name: 'usr_2' }).click();
    await page.getByRole('heading', { name: 'usr_2' }).waitFor();
    for (const id of [failing, disabled]) await region(page, 'Webhooks').getByText(id).waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('shows which requests were refused and why, for all accounts and for one', async () => {
    const { page, problems } = await signIn('#/refusals');
    const row = page.getByRole('row').filter({ hasText: 'usr_1' });
    await row.getByText('insufficient_credits').waitFor();
    await page.getByLabel('Account').fill('usr_of_nobody');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing was refused').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await row.getByRole('link', { name: 'usr_1' }).click();
    await region(page, 'Refused in the last 24 hours').getByText('insufficient_credits').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('finds the account of an id, and sends only the id part of an API key', async () => {
    const { page, problems } = await signIn();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const [delivery] = (await scene.live.gateway.deliveries.list('usr_2', { limit: 1 })).deliveries;
    for (const [text, found] of [
      ['usr_2', undefined],
      [eventId, `Event ${eventId} belongs to this account`],
      [String(delivery?.id), `Delivery ${delivery?.id} belongs to this account`],
      [failing, `Webhook ${failing} belongs to this account`],
      [customer.id, `API key ${customer.id} belongs to this account`],
      [customer.key, `API key ${customer.id} belongs to this account`],
    ] as const) {
      await page.goto(`${scene.dashboard}#/accounts`);
      await page.getByRole('heading', { name: 'Accounts' }).waitFor();
      await page.getByLabel('Find by id').fill(text);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'usr_2' }).waitFor();
      if (found) await page.getByText(found).waitFor();
    }
    const secretPart = customer.key.slice(-43);
    expect([...asked, page.url(), await page.content()].filter((text) => text.includes(secretPart))).to.deep.equal([]);
    await page.getByLabel('Find by id').fill('dlv_1');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing has the id dlv_1').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('opens a webhook of the signed-in account in the view of that account', async () => {
    const { page } = await scene.signIn('#/webhooks');
    const { id } = await scene.live.gateway.webhooks.create('usr_1', { url: gone.url, events: ['credits.low'] });
    await page.getByLabel('Find by id').fill(id);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: new URL(gone.url).host }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Webhooks' }).waitFor();
  });

  it('shows no secret in any view, and is accessible', async () => {
    const { page, problems } = await signIn();
    const answers: string[] = [];
    page.on('response', async (response) => answers.push(await response.text().catch(() => '')));
    for (const view of views) {
      await page.goto(`${scene.dashboard}#/${view}`);
      await page.waitForLoadState('networkidle');
      await page.getByRole('heading', { level: 1 }).waitFor();
      expect(await accessibilityProblems(page), view).to.deep.equal([]);
      answers.push(await page.content());
    }
    for (const hidden of [secret, upstreamKey, operator.key, customer.key, scene.live.key]) {
      expect(answers.filter((text) => text.includes(hidden))).to.deep.equal([]);
    }
    expect(problems).to.deep.equal([]);
  });
});
