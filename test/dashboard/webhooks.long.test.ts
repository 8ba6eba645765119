import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

async function addWebhook(page: Page, url: string, ...types: string[]): Promise<void> {
  await page.getByRole('link', { name: 'Webhooks', exact: true }).last().click();
  await page.getByRole('button', { name: 'Add webhook' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add a webhook' });
  await dialog.getByLabel('URL').fill(url);
  for (const type of types) await dialog.getByLabel(type).check();
  await dialog.getByRole('button', { name: 'Add webhook' }).click();
}

describe('webhooks in the dashboard', () => {
  closeBrowserAfterwards();
  let scene: Scene;

  before(async () => {
    scene = await startScene();
  });
  after(() => scene?.close());

  const only = async () => (await scene.live.gateway.webhooks.list('usr_1')).webhooks[0];

  it('can be added, edited, paused, resumed, rotated and deleted', async () => {
    const { page, problems } = await scene.signIn('#/webhooks');
    await page.getByText('No webhooks yet').waitFor();

    await addWebhook(page, 'http://127.0.0.1:9/hook', 'payment.completed', 'credits.low');
    await page.getByRole('heading', { name: '127.0.0.1:9/hook' }).waitFor();
    expect(await only()).to.deep.include({
      url: 'http://127.0.0.1:9/hook',
      events: ['credits.low', 'payment.completed'],
      active: true,
    });

    await page.getByRole('button', { name: 'Edit' }).click();
    const edit = page.getByRole('dialog', { name: 'Edit the webhook' });
    expect(await edit.textContent()).to.not.include('Beta');
    for (const type of ['credits.low', 'payment.completed']) await edit.getByLabel(type).uncheck();
    await edit.getByRole('button', { name: 'Save' }).click();
    await edit.getByRole('alert').getByText('Choose at least one').waitFor();
    await edit.getByLabel('payment.completed').check();
    await edit.getByLabel('payment.failed').check();
    await edit.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The webhook has been changed').waitFor();
    expect((await only())?.events).to.deep.equal(['payment.completed', 'payment.failed']);

    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('It is paused: nothing is sent').waitFor();
    expect((await only())?.active).to.equal(false);
    const test = page.getByRole('button', { name: 'Send test event' });
    expect(await test.isDisabled()).to.equal(true);
    expect(await test.getAttribute('title')).to.equal('The webhook is paused: resume it first');
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    expect((await only())?.active).to.equal(true);

    await page.getByRole('button', { name: 'Rotate secret' }).click();
    const rotate = page.getByRole('dialog', { name: 'Rotate the secret' });
    expect(await rotate.getByLabel('New secret').inputValue()).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
    await rotate.getByLabel('Both secrets are good for').selectOption('1 hour');
    await rotate.getByLabel('x-service-signature').selectOption('The previous secret');
    await rotate.getByRole('button', { name: 'Rotate secret' }).click();
    await page.getByText(/Two secrets are good until .* x-service-signature is made with the previous one/).waitFor();

    await page.getByRole('button', { name: 'Delete' }).click();
    const remove = page.getByRole('dialog', { name: 'Delete the webhook?' });
    await remove.getByRole('button', { name: 'Keep it' }).click();
    expect(await only()).to.not.equal(undefined);
    expect(problems).to.deep.equal([]);
    await page.getByRole('button', { name: 'Delete' }).click();
    await remove.getByRole('button', { name: 'Delete webhook' }).click();
    await page.getByText('No webhooks yet').waitFor();
    expect(await only()).to.equal(undefined);
    // the page reads the webhook every five seconds, and may do so once between its deletion and the next view
    expect(problems.filter((problem) => !problem.includes('status of 404'))).to.deep.equal([]);
  });

  it('take a description, filters, metadata, a rate limit and headers, and lose emptied filters', async () => {
    const { page, problems } = await scene.signIn('#/webhooks');
    await page.getByRole('button', { name: 'Add webhook' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add a webhook' });
    await dialog.getByLabel('URL').fill('http://127.0.0.1:9/hook');
    await dialog.getByLabel('payment.completed').check();
    await dialog.getByLabel('Description').fill('Tells accounting');
    await dialog.getByLabel('Filters').fill('model = x');
    await dialog.getByRole('button', { name: 'Add webhook' }).click();
    await dialog.getByText(/'model' must be a path into the data/i).waitFor();
    await dialog.getByLabel('Filters').fill('data.id = 1524831183200260097');
    await dialog.getByRole('button', { name: 'Add webhook' }).click();
    await dialog.getByText(/1524831183200260097 has more digits than JSON numbers keep/).waitFor();
    await dialog.getByLabel('Filters').fill('data.currency = usd, eur\ndata.note = "a, b", 20, "20"');
    await dialog.getByLabel('Metadata').fill('team = a = b');
    await dialog.getByRole('spinbutton', { name: 'Rate limit' }).fill('20');
    await dialog.getByLabel('Headers').fill('X-Api-Key: a-secret: value');
    await dialog.getByRole('button', { name: 'Add webhook' }).click();
    await page.getByText('data.note = "a, b", 20, "20"').waitFor();
    await page.getByText('team = a = b').waitFor();
    expect(await only()).to.deep.include({
      description: 'Tells accounting',
      filters: { 'data.currency': ['usd', 'eur'], 'data.note': ['a, b', 20, '20'] },
      metadata: { team: 'a = b' },
      rateLimit: 20,
      headerNames: ['x-api-key'],
    });
    expect(await page.content()).to.not.include('a-secret');

    await page.getByRole('link', { name: 'Webhooks', exact: true }).last().click();
    const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'Tells accounting' }) });
    await row.getByText('http://127.0.0.1:9/hook').waitFor();
    await row.getByRole('link', { name: 'Tells accounting' }).click();

    await page.getByRole('button', { name: 'Edit' }).click();
    const edit = page.getByRole('dialog', { name: 'Edit the webhook' });
    await edit.getByLabel('Filters').fill('');
    await edit.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The webhook has been changed').waitFor();
    expect(await only())
      .to.deep.include({ description: 'Tells accounting', metadata: { team: 'a = b' }, headerNames: ['x-api-key'] })
      .and.not.have.property('filters');
    await scene.live.gateway.webhooks.remove('usr_1', (await only())?.id ?? '');
    expect(problems.filter((problem) => !problem.includes('status of 400'))).to.deep.equal([]);
  });

  it('come with explanations of event types and of how to verify deliveries', async () => {
    const { page, problems } = await scene.signIn('#/event-types');
    const type = page.getByRole('region', { name: 'credits.low' });
    await type.getByText('The credit balance dropped below a threshold.').waitFor();
    expect(await page.locator('#content').textContent()).to.not.include('Beta.');
    await type.getByRole('rowheader', { name: 'credits_remaining' }).waitFor();
    await type.getByText('Example and schema').click();
    await type.getByRole('region', { name: 'Example of credits.low' }).getByText('"threshold": 5').waitFor();
    await type.getByRole('region', { name: 'JSON schema' }).getByText('"required"').waitFor();

    await page.getByRole('link', { name: 'How to verify deliveries' }).click();
    for (const [language, text] of [
      ['PHP', 'hash_hmac'],
      ['Java', 'HmacSHA256'],
      ['Go', 'hmac.New(sha256.New'],
    ] as const) {
      await page.getByRole('navigation', { name: 'Language' }).getByRole('link', { name: language }).click();
      await page.getByRole('region', { name: language }).getByText(text).waitFor();
    }
    await page.getByRole('textbox', { name: 'Secret' }).fill('a-long-enough-secret');
    await page.getByText('whsec_YS1sb25nLWVub3VnaC1zZWNyZXQ=').waitFor();
    const whole = `whsec_${'A'.repeat(43)}=`;
    await page.getByRole('textbox', { name: 'Secret' }).fill(whole);
    await page.getByText(whole).waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('show an error at its field', async () => {
    const { page, problems } = await scene.signIn('#/webhooks');
    await addWebhook(page, 'http://user:password@example.com/hook', 'credits.low');
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('alert').waitFor();
    const field = dialog.getByLabel('URL');
    expect(await field.getAttribute('aria-invalid')).to.equal('true');
    const described = (await field.getAttribute('aria-describedby')) ?? '';
    const alert = (await dialog.getByRole('alert').getAttribute('id')) ?? '';
    expect(described.split(' ')).to.include(alert);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(problems.filter((problem) => !problem.includes('status of 400'))).to.deep.equal([]);
  });

  it('of another account are never shown', async () => {
    const { gateway } = scene.live;
    const other = await gateway.webhooks.create('usr_2', {
      url: 'http://127.0.0.1:9/of-another',
      events: ['credits.low'],
      secret: 'a-long-enough-secret',
    });
    const { page } = await scene.signIn('#/webhooks');
    await page.getByText('No webhooks yet').waitFor();
    await page.goto(`${scene.dashboard}#/webhooks/${other.id}`);
    await page.getByText(`No webhook ${other.id}`).waitFor();
    expect(await page.content()).to.not.include('of-another');
    await gateway.webhooks.remove('usr_2', other.id);
  });

  it('can be reached with the keyboard alone', async () => {
    const { page } = await scene.open('#/webhooks');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.type(scene.live.key);
    await page.keyboard.press('Enter');
    await page.getByText('No webhooks yet').waitFor();
    const focused = () => page.evaluate('document.activeElement.textContent.trim()');
    // the heading has the focus, and what comes after it is the view's first action
    expect(await focused()).to.equal('Webhooks');
    await page.keyboard.press('Tab');
    expect(await focused()).to.equal('Add webhook');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    // a closed dialog gives the focus back to what opened it
    expect(await focused()).to.equal('Add webhook');
  });
});
