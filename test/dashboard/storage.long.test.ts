import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { FileProvider } from '../stored/file-provider.ts';
import { until } from '../support/until.ts';
import { accessibilityProblems, closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

interface Report {
  readonly data: readonly Readonly<Record<string, unknown>>[];
}

describe('the storage page of the dashboard', () => {
  closeBrowserAfterwards();
  let provider: FileProvider;
  let scene: Scene;
  let client: OpenAI;

  before(async () => {
    provider = await FileProvider.start();
    scene = await startScene({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl }] });
    client = clientOf(scene.live.key);
  });
  afterEach(() => {
    provider.prefix = '';
    provider.onRequest = undefined;
  });
  after(async () => {
    await scene?.close();
    await provider.close();
  });

  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${scene.live.url}/v1`, maxRetries: 0 });
  const newFile = async (name: string, bytes: number, by = client) =>
    (await by.files.create({ file: await toFile(Buffer.alloc(bytes, 'a'), name), purpose: 'user_data' })).id;

  it('shows how much is kept of each kind, and each object with its size and what made it', async () => {
    const { key } = await scene.live.gateway.keys.create({ userId: 'usr_1', name: 'importer' });
    // as long as those of OpenAI
    provider.prefix = `${'68f2b1c09a7e4d35'.repeat(3)}_`;
    const file = await newFile('rivers-of-portugal.pdf', 1_234_567, clientOf(key));
    await client.vectorStores.create({ name: 'rivers' });
    await client.containers.create({ name: 'notebook' });
    const { id } = await client.responses.create({ model: 'm', input: 'Hi' });
    const { page, problems } = await scene.signIn('#/storage');
    const row = page.getByRole('row').filter({ hasText: 'rivers-of-portugal.pdf' });
    for (const text of ['file', '1.23 MB', 'importer', '/files', 'When deleted', file]) {
      await row.getByText(text, { exact: true }).waitFor();
    }
    const response = page.getByRole('row').filter({ hasText: id });
    for (const text of ['response', '/responses', 'in 29 d']) {
      await response.getByText(text, { exact: true }).waitFor();
    }
    const facts = page.locator('.facts');
    expect(await facts.locator('dt').allTextContents()).to.deep.equal([
      'Responses',
      'Files',
      'Containers',
      'Vector stores',
    ]);
    expect(await facts.locator('dd').nth(1).textContent()).to.equal('1 1.23 MB');
    expect(await accessibilityProblems(page)).to.deep.equal([]);

    await page.getByRole('combobox', { name: 'Kind' }).selectOption('Vector stores');
    await row.waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'rivers' }).waitFor();
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('Skills');
    await page.getByText('Nothing matches').waitFor();
    await page.getByRole('link', { name: 'Clear filters' }).click();
    await row.waitFor();
    for (const width of [1280, 1000, 390]) {
      await page.setViewportSize({ width, height: 844 });
      expect(await page.evaluate('document.documentElement.scrollWidth')).to.equal(width);
    }
    expect(problems).to.deep.equal([]);
  });

  it('deletes with the keyboard, after it has asked, and says why where that fails', async () => {
    const id = await newFile('old.txt', 10);
    const { page } = await scene.signIn('#/storage?kind=file');
    await page.getByRole('button', { name: 'Delete old.txt' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Delete the file?' });
    await dialog.waitFor();
    expect(await accessibilityProblems(page)).to.deep.equal([]);
    provider.onRequest = (_req, res) => res.writeHead(409).end('{"error":{"message":"The file is in use"}}');
    await dialog.getByRole('button', { name: 'Delete' }).press('Enter');
    await dialog.getByText('The file is in use').waitFor();
    provider.onRequest = undefined;
    await dialog.getByRole('button', { name: 'Delete' }).press('Enter');
    await page.getByText('The file has been deleted').waitFor();
    await page.getByRole('row').filter({ hasText: 'old.txt' }).waitFor({ state: 'detached' });
    expect(await client.files.retrieve(id).catch(({ code }) => code)).to.equal('file_not_found');
  });

  it('offers no deletion of a batch, which the API does not delete, and deletes every other kind', async () => {
    const { key } = await scene.live.gateway.keys.create({ userId: 'usr_5' });
    const by = clientOf(key);
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'm', messages: [] } };
    const file = await toFile(Buffer.from(JSON.stringify(line)), 'in.jsonl');
    const { id: input } = await by.files.create({ file, purpose: 'batch' });
    await by.batches.create({ input_file_id: input, endpoint: '/v1/chat/completions', completion_window: '24h' });
    await by.vectorStores.create({ name: 'store' });
    await by.containers.create({ name: 'notebook' });
    await by.responses.create({ model: 'm', input: 'Hi' });
    await by.skills.create({ files: [await toFile(Buffer.from('a skill'), 'SKILL.md')] });
    const { page } = await scene.signIn('#/storage', { key });
    const deletes = page.getByRole('button', { name: /^Delete / });
    await page.getByRole('row').filter({ hasText: 'batch_' }).first().waitFor();
    expect(await deletes.count()).to.equal(5);
    for (let left = 5; left > 0; left -= 1) {
      await deletes.first().click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.locator('tbody tr').nth(left).waitFor({ state: 'detached' });
    }
    expect(await page.locator('tbody tr').count()).to.equal(1);
  });

  it('shows under Usage how much was sent up and down', async () => {
    const { key } = await scene.live.gateway.keys.create({ userId: 'usr_6' });
    const by = clientOf(key);
    await (await by.files.content(await newFile('rivers.txt', 2_000_000, by))).arrayBuffer();
    const ask = () => fetch(`${scene.live.url}/v1/usage`, { headers: { authorization: `Bearer ${key}` } });
    await until(async () => ((await (await ask()).json()) as Report).data[0]?.downloaded_bytes === 2_000_000, 15_000);
    const { page } = await scene.signIn('#/usage', { key });
    await page.getByRole('columnheader', { name: 'Uploaded' }).waitFor();
    const cells = await page.locator('.list.usage tbody tr').first().getByRole('cell').allTextContents();
    expect(cells.join()).to.match(/Uploaded 2 MB,Downloaded 2 MB/);
    expect(await accessibilityProblems(page)).to.deep.equal([]);
  });

  it('shows the operator how much an account keeps', async () => {
    await newFile('more.txt', 2_000);
    const { page, problems } = await scene.signIn('#/accounts/usr_1');
    const card = page.getByRole('region', { name: 'Storage' });
    await card.getByText('Files').waitFor();
    await card.getByText(/MB|kB/).first().waitFor();
    expect(await accessibilityProblems(page)).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
  });
});
