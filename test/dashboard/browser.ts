import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { findChromium } from '../support/processes/chromium.ts';

let launched: Promise<Browser> | undefined;

/** A real browser, one for the tests of a file. Without one they fail; they are never skipped. */
function theBrowser(): Promise<Browser> {
  launched ??= findChromium().then((found) => chromium.launch({ ...found, headless: true }));
  return launched;
}

/** Closes the pages of each test of this suite after it, and the browser after the last. */
export function closeBrowserAfterwards(): void {
  afterEach(async () => {
    // a page that nobody looks at any more would go on asking
    for (const context of (await launched)?.contexts() ?? []) await context.close();
  });
  after(async () => {
    const browser = await launched;
    launched = undefined;
    await browser?.close();
  });
}

/** A page, and whatever went wrong in it: errors in the console, violations of the policy, requests to other hosts. */
export interface WatchedPage {
  readonly page: Page;
  readonly problems: string[];
}

/** A page with a profile of its own, until the test ends. */
export async function openPage(url: string, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const browser = await theBrowser();
  const context = await browser.newContext({ timezoneId: 'Europe/Berlin', locale: 'en-GB', ...options });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('dialog', (dialog) => {
    problems.push(`a script asked: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!/^(data|blob|about):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) {
      problems.push(`a request to ${request.url()}`);
    }
  });
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', (event) => console.error('policy violated: ' + event.violatedDirective))",
  );
  page.setDefaultTimeout(30_000);
  return { page, problems };
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What axe finds wrong on the page as it is now, one line for each rule.
 * @param context what of the page it looks at. @default all of it
 */
export async function accessibilityProblems(
  page: Page,
  context: { exclude: string[] } = { exclude: [] },
): Promise<string[]> {
  if (await page.evaluate<boolean>("typeof axe === 'undefined'")) await page.evaluate(axeSource);
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run(${JSON.stringify(context)}, { resultTypes: ['violations'] })`,
  );
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' | ')}`);
}
