import { expect } from 'chai';
import express from 'express';
import type { Page } from 'playwright-core';
import { type Listening, listen } from '../support/listen.ts';
import { operations } from '../support/spec.ts';
import { accessibilityProblems, closeBrowserAfterwards, openPage } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

describe('the API reference', function () {
  closeBrowserAfterwards();
  this.timeout(240_000);
  let scene: Scene;
  let mounted: Listening;

  before(async () => {
    scene = await startScene({ dashboard: { path: '/customers/dashboard' } });
    mounted = await listen(express().use('/api/llm', scene.live.gateway.router));
  });
  after(async () => {
    await mounted?.close();
    await scene?.close();
  });

  async function openReference() {
    const address = `${mounted.url}/api/llm/customers/dashboard/reference/`;
    const watched = await openPage(address);
    // it reads all of openapi.yaml, and whenever an operation is opened resolves its references: seconds on a busy machine
    watched.page.setDefaultTimeout(90_000);
    await watched.page.goto(address);
    await watched.page.locator('.opblock').first().waitFor();
    return watched;
  }

  /** The operations that a reader comes across who scrolls down: Swagger UI has no others in the document. */
  async function shownOperations(page: Page): Promise<string[]> {
    const shown = new Set<string>();
    for (let isEnd = false; !isEnd; ) {
      const ids = await page.locator('.operations-virtual .opblock').evaluateAll((all) => all.map(({ id }) => id));
      for (const id of ids) shown.add(id.split('-').at(-1) as string);
      const before = await page.evaluate('scrollY');
      await page.evaluate('scrollBy(0, innerHeight / 2)');
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
      isEnd = (await page.evaluate('scrollY')) === before;
    }
    return [...shown];
  }

  it('shows every operation at the mount path, sends requests to the gateway with a key, and contacts no other host', async () => {
    const { page, problems } = await openReference();
    expect(await shownOperations(page)).to.have.members(operations.map(({ operation }) => operation.operationId));
    expect(await page.locator('.servers option').allTextContents()).to.deep.equal(['/api/llm - This gateway']);
    await page.evaluate('scrollTo(0, 0)');
    const chat = page.locator('[id$="-createChatCompletion"]');
    await chat.locator('.opblock-summary-control').click();
    await chat.getByText('Request body').waitFor();
    // opening it takes most of the time: the same page then sends a request
    await page.getByRole('button', { name: 'Authorize' }).first().click();
    const dialog = page.locator('.auth-container');
    await dialog.locator('input').fill(scene.live.key);
    await dialog.getByRole('button', { name: /^apply credentials$/i }).click();
    await page.locator('.modal-ux .btn-done').click();
    await page.locator('.operation-filter-input').fill('API keys');
    const operation = page.locator('[id$="-listApiKeys"]');
    await operation.locator('.opblock-summary-control').click();
    const answered = page.waitForResponse((response) => response.url().includes('/v1/api_keys'));
    await operation.getByRole('button', { name: 'Execute' }).click();
    const response = await answered;
    expect(response.url()).to.match(new RegExp(`^${mounted.url}/api/llm/v1/api_keys`));
    expect(response.status()).to.equal(200);
    await operation.locator('.live-responses-table').getByText('200').first().waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('is accessible outside Swagger UI, and is linked with the dashboard both ways', async () => {
    const { page, problems } = await scene.signIn();
    // as above
    page.setDefaultTimeout(90_000);
    await page.getByRole('link', { name: 'API reference' }).click();
    await page.locator('.opblock').first().waitFor();
    expect(new URL(page.url()).pathname).to.equal('/customers/dashboard/reference/');
    // what is in it is Swagger UI's
    expect(await accessibilityProblems(page, { exclude: ['#reference'] })).to.deep.equal([]);
    await page.getByRole('link', { name: 'Dashboard' }).click();
    await page.waitForURL(scene.dashboard);
    expect(problems).to.deep.equal([]);
  });
});
