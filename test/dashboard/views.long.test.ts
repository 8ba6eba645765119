import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { eventually } from '../support/until.ts';
import { accessibilityProblems, closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

const payment = {
  type: 'payment.completed',
  userId: 'usr_1',
  data: { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' },
} as const;

/** A place, what is there when it has loaded, and the button of a dialog to open there. */
type View = readonly [place: string, shows: string, button?: string];

describe('every view of the dashboard', () => {
  closeBrowserAfterwards();
  let scene: Scene;
  let good: TestReceiver;
  let bad: TestReceiver;
  let views: View[];

  before(async () => {
    // four attempts, so that one delivery has failed, and another of a webhook added later is still retrying
    scene = await startScene({ retryDelays: [50, 50, 50], deliveries: { sweepInterval: 100 } });
    good = await startReceiver(200);
    bad = await startReceiver(503);
    const { webhooks, publish } = scene.live.gateway;
    const add = ({ url }: TestReceiver) =>
      webhooks.create('usr_1', { url, events: ['payment.completed'], secret: 'a-long-enough-secret' });
    const [healthy, failing] = [await add(good), await add(bad)];
    const paused = await add(bad);
    await webhooks.update('usr_1', paused.id, { active: false });
    const event = await publish(payment);
    await bad.count(4);
    const failed = await eventually(
      async () => (await scene.live.call('GET', '/v1/deliveries?state=failed')).body.data[0],
      (delivery) => delivery !== undefined,
    );
    const [apiKey] = (await scene.live.call('GET', '/v1/api_keys')).body.data;
    views = [
      ['#/webhooks', 'Paused'],
      ['#/webhooks', 'Paused', 'Add webhook'],
      [`#/webhooks/${healthy.id}`, 'Attempts over time'],
      [`#/webhooks/${healthy.id}`, 'Attempts over time', 'Send test event'],
      [`#/webhooks/${healthy.id}`, 'Attempts over time', 'Edit'],
      [`#/webhooks/${healthy.id}`, 'Attempts over time', 'Rotate secret'],
      [`#/webhooks/${healthy.id}`, 'Attempts over time', 'Delete'],
      [`#/webhooks/${failing.id}`, 'Attempts over time'],
      [`#/webhooks/${paused.id}`, 'It is paused: nothing is sent'],
      ['#/webhooks/wh_of_nobody', 'No webhook wh_of_nobody'],
      ['#/events', 'All, newest first'],
      ['#/events?type=credits.low', 'Nothing matches'],
      [`#/events/${event.id}`, '1 webhook was paused'],
      ['#/deliveries', 'All, newest first'],
      ['#/deliveries?state=failed&time=range', 'Send all failed again'],
      [`#/deliveries/${failed.id}`, 'All 4 attempts failed.'],
      ['#/keys', 'API keys'],
      ['#/keys', 'API keys', 'Create key'],
      ['#/keys', 'API keys', `Edit the budgets of ${apiKey.id}`],
      ['#/usage', 'Nothing used yet'],
      ['#/storage', 'Nothing kept yet'],
      ['#/storage?kind=file', 'Nothing matches'],
      ['#/event-types', 'Example and schema'],
      ['#/verification', 'A receiver that verifies'],
      ['#/nowhere', 'There is no such page'],
      ['#/status', 'Live'],
      ['#/accounts', 'By id'],
      ['#/failing-webhooks', 'No webhook fails'],
      ['#/refusals?user=usr_1', 'Refusals'],
      ['#/find/nothing', 'Nothing has the id nothing'],
      ['#/accounts/usr_1', 'Rate limit of the account'],
      ['#/accounts/usr_1', 'Rate limit of the account', `Revoke ${apiKey.id}`],
      ['#/overview', 'Failed in the last 7 days'],
      ['#/overview', 'Get started'],
      ['#/errors', 'Answers of the API'],
      ['#/errors/timeout', 'Answer 2xx at once'],
      ['#/errors/nothing', 'No error of this gateway has this code'],
    ];
  });
  after(async () => {
    await scene?.close();
    await Promise.all([good?.stop(), bad?.stop()]);
  });

  async function show(page: Page, [place, shows, button]: View): Promise<void> {
    // another place in between, so that the view starts anew
    await page.goto(`${scene.dashboard}#/elsewhere`);
    await page.getByText('There is no such page').waitFor();
    await page.goto(scene.dashboard + place);
    await page.getByText(shows).first().waitFor();
    if (!button) return;
    await page.getByRole('button', { name: button, exact: true }).click();
    await page.getByRole('dialog').waitFor();
  }

  const desk = { width: 1280, height: 860 };
  const phone = { width: 390, height: 844 };
  for (const [where, colorScheme, viewport] of [
    ['in light colours', 'light', desk],
    ['in dark colours on a phone', 'dark', phone],
  ] as const) {
    it(`is accessible ${where}, fits the screen, and breaks no policy`, async () => {
      const left = [...views];
      async function lookAtWhatIsLeft(): Promise<void> {
        const { page, problems } = await scene.open('', { colorScheme, viewport, reducedMotion: 'reduce' });
        await page.getByRole('heading', { name: 'Sign in' }).waitFor();
        expect(await accessibilityProblems(page), 'sign in').to.deep.equal([]);
        await page.evaluate(`sessionStorage.setItem('gateway-api-key', '${scene.live.key}')`);
        await page.reload();
        for (let view = left.shift(); view; view = left.shift()) {
          await show(page, view);
          expect(await accessibilityProblems(page), view.join(' ')).to.deep.equal([]);
          expect(await page.evaluate('document.documentElement.scrollWidth'), view.join(' ')).to.equal(viewport.width);
        }
        const unexpected = problems.filter((problem) => !problem.includes('status of 404'));
        expect(unexpected).to.deep.equal([]);
      }
      // two pages at once: while one is looked at, the other loads
      await Promise.all([lookAtWhatIsLeft(), lookAtWhatIsLeft()]);
    });
  }

  it('keeps states apart from what they are of, on a screen of 1,360 pixels', async () => {
    const { page } = await scene.signIn('', { viewport: { width: 1360, height: 860 } });
    for (const [place, state] of [
      ['deliveries', 'Delivered'],
      ['events', 'Failed'],
      ['webhooks', 'Healthy'],
      ['overview', 'Failed'],
    ]) {
      await page.goto(`${scene.dashboard}#/${place}`);
      await page.locator('.list .badge').getByText(String(state)).first().waitFor();
      const gaps = await page.evaluate<number[]>(`[...document.querySelectorAll('.list tbody tr')].map((row) => {
        const badge = row.cells[0].querySelector('.badge').getBoundingClientRect();
        return row.querySelector('.cell-main a').getBoundingClientRect().left - badge.right;
      })`);
      expect(Math.min(...gaps), place).to.be.at.least(8);
    }
  });

  it("shows times in the reader's time zone, and in UTC on hover", async () => {
    const { page } = await scene.signIn(views[0]?.[0], { timezoneId: 'Asia/Tokyo' });
    await page.goto(scene.dashboard + (views[15] as View)[0]);
    const time = page.getByRole('region', { name: 'Attempts' }).locator('time').first();
    const at = new Date((await time.getAttribute('datetime')) ?? '');
    const inTokyo = at.toLocaleTimeString('en-GB', { timeZone: 'Asia/Tokyo' });
    expect(await time.textContent()).to.include(inTokyo);
    expect(await time.getAttribute('title')).to.equal(at.toISOString().replace('T', ' ').replace('Z', ' UTC'));
  });

  it('keeps the chosen colours', async () => {
    const { page } = await scene.signIn('', { colorScheme: 'light' });
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await background();
    await page.getByRole('button', { name: 'Use dark colours' }).click();
    const dark = await background();
    expect(dark).to.not.equal(light);
    await page.reload();
    await page.getByRole('button', { name: 'Use light colours' }).waitFor();
    expect(await background()).to.equal(dark);
  });

  it('keeps the rest of the page when a view fails', async () => {
    const { page } = await scene.signIn();
    await page.route('**/v1/event_types', (route) => route.fulfill({ json: { data: [{}] } }));
    await page.getByRole('link', { name: 'Event types' }).click();
    await page.getByText('This view has failed').waitFor();
    await page.getByRole('button', { name: 'Reload the page' }).waitFor();
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByRole('button', { name: 'Create key' }).waitFor();
  });

  it('refreshes while it is visible, and sends nothing while it is hidden', async () => {
    const { page } = await scene.signIn();
    await page.clock.install();
    await page.goto(`${scene.dashboard}#/deliveries`);
    await page.reload();
    await page.getByText('All, newest first').waitFor();
    const asked = page.waitForRequest((request) => request.url().includes('/v1/deliveries'));
    await page.clock.runFor(10_000);
    await asked;

    await page.evaluate(
      "Object.defineProperty(document, 'hidden', { get: () => true }); document.dispatchEvent(new Event('visibilitychange'))",
    );
    await page.waitForLoadState('networkidle');
    const unseen: string[] = [];
    page.on('request', (request) => unseen.push(request.url()));
    await page.clock.runFor(60_000);
    expect(unseen).to.deep.equal([]);
  });
});
