import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { until } from '../support/until.ts';
import { closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

const payment = {
  type: 'payment.completed',
  userId: 'usr_1',
  data: { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' },
} as const;

/** A webhook's page, for a webhook that is there already. */
async function webhookOf(scene: Scene, receiver: TestReceiver): Promise<string> {
  const { id } = await scene.live.gateway.webhooks.create('usr_1', {
    url: receiver.url,
    events: ['payment.completed', 'credits.low'],
    secret: 'a-long-enough-secret',
  });
  return id;
}

const attempts = (page: Page) => page.getByRole('region', { name: 'Attempts' });

describe('deliveries in the dashboard', () => {
  closeBrowserAfterwards();
  let scene: Scene;
  let receiver: TestReceiver;

  before(async () => {
    scene = await startScene({ retryDelays: [300, 300, 300, 300, 300], deliveries: { sweepInterval: 100 } });
  });
  after(() => scene?.close());
  beforeEach(async () => {
    receiver = await startReceiver(200);
  });
  afterEach(async () => {
    const { webhooks } = scene.live.gateway;
    for (const { id } of (await webhooks.list('usr_1')).webhooks) await webhooks.remove('usr_1', id);
    await receiver.stop();
  });

  it('show where a redirect led, and what Retry-After asked for', async () => {
    const id = await webhookOf(scene, receiver);
    receiver.answers((res) => {
      res.writeHead(308, { location: 'https://new.example/hook', 'retry-after': '120' }).end();
    });
    await scene.live.gateway.publish(payment);
    const { page, problems } = await scene.signIn(`#/webhooks/${id}`);
    const rows = page.getByRole('region', { name: 'Deliveries', exact: true }).getByRole('row');
    await rows.filter({ hasText: 'payment.completed' }).getByRole('link').click();
    const headers = attempts(page).getByRole('region', { name: 'Response headers' }).last();
    await headers.getByText('location: https://new.example/hook').waitFor();
    await headers.getByText('retry-after: 120').waitFor();
    expect(problems).to.deep.equal([]);
    await page.close();
  });

  it('show a test event, six failed attempts and a successful resend', async () => {
    const id = await webhookOf(scene, receiver);
    const { page, problems } = await scene.signIn(`#/webhooks/${id}`);

    await page.getByRole('button', { name: 'Send test event' }).click();
    const test = page.getByRole('dialog', { name: 'Send test event' });
    await test.getByLabel('Type').selectOption('credits.low');
    await test.getByRole('button', { name: 'Send test event' }).click();
    await test.getByText('HTTP 200').first().waitFor();
    await test.getByText('answered 200').waitFor();
    expect(receiver.received[0]?.headers['x-service-test']).to.equal('true');
    expect(JSON.parse(String(receiver.received[0]?.body)).type).to.equal('credits.low');
    const data = test.getByLabel('Data');
    expect(JSON.parse(await data.inputValue())).to.include({ user_id: 'usr_1', threshold: 5 });
    await data.fill('{"user_id":"usr_1","credits_remaining":"three","threshold":100}');
    await test.getByRole('button', { name: 'Send another' }).click();
    await test.getByRole('alert').getByText('data.credits_remaining: ').waitFor();
    await data.fill('{"user_id":"usr_1","credits_remaining":1524831183200260097,"threshold":100}');
    await test.getByRole('button', { name: 'Send' }).click();
    await test.getByRole('alert').getByText('data.credits_remaining: has more digits').waitFor();
    await data.fill('{"user_id":"usr_1","credits_remaining":3,"threshold":100}');
    await test.getByRole('button', { name: 'Send' }).click();
    await receiver.count(2);
    expect(JSON.parse(String(receiver.received[1]?.body)).data.credits_remaining).to.equal(3);
    await test.getByText('answered 200').waitFor();
    await test.getByRole('button', { name: 'Close' }).last().click();

    receiver.answers(503);
    await scene.live.gateway.publish(payment);
    const rows = page.getByRole('region', { name: 'Deliveries', exact: true }).getByRole('row');
    await rows.filter({ hasText: 'payment.completed' }).getByRole('link').click();
    await page.getByRole('heading', { name: 'payment.completed' }).waitFor();
    for (const n of [1, 2, 3, 4, 5, 6]) await attempts(page).getByText(`Attempt ${n}`).first().waitFor();
    await page.getByText('All 6 attempts failed.').waitFor();
    expect(await attempts(page).getByText('HTTP 503', { exact: true }).count()).to.equal(6);
    await page.getByText('The receiver answered with this status').first().waitFor();
    await page.getByRole('region', { name: 'Body' }).getByText('"payment_id": "pay_1"').waitFor();
    expect(await attempts(page).textContent()).to.not.match(/signature/i);

    receiver.answers(200);
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByText('Sent again: HTTP 200').waitFor();
    await page.getByText('Delivered after 7 attempts, 1 manual.').waitFor();
    await page.getByText('6 of 6, 1 manual').waitFor();
    await attempts(page).getByText('Manual attempt').waitFor();
    expect(receiver.received).to.have.length(9);
    expect(problems.filter((problem) => !problem.includes('status of 400'))).to.deep.equal([]);
  });

  it('that failed come first, and can be filtered by state, webhook, type and time', async () => {
    const id = await webhookOf(scene, receiver);
    const { page, problems } = await scene.signIn('#/deliveries');
    receiver.answers(500);
    await scene.live.gateway.publish(payment);
    const failed = page.getByRole('region', { name: 'Failed deliveries' });
    const latest = failed.getByRole('link', { name: 'payment.completed' }).first();
    await latest.waitFor();

    await page.getByLabel('Webhook').selectOption(id);
    await page.getByRole('link', { name: 'Clear filters' }).waitFor();
    await page.getByLabel('Event type').selectOption('credits.low');
    await page.getByText('Nothing matches').waitFor();
    await page.getByLabel('Event type').selectOption('payment.completed');
    await latest.waitFor();
    await page.getByRole('navigation', { name: 'State' }).getByRole('link', { name: 'Failed' }).click();
    // the one list that is left, once it has come
    await page.getByRole('heading', { name: 'Failed', exact: true }).waitFor();
    await failed.waitFor({ state: 'detached' });
    await page.getByRole('table').getByRole('link', { name: 'payment.completed' }).waitFor();
    expect(new URL(page.url()).hash).to.equal(`#/deliveries?webhook=${id}&type=payment.completed&state=failed`);
    await page.getByLabel('Time').selectOption('Last hour');
    await page.waitForURL(({ hash }) => hash.endsWith('&time=1h'));
    await page.getByRole('table').getByRole('link', { name: 'payment.completed' }).waitFor();
    await page.getByLabel('Time').selectOption('Between two times…');
    await page.getByLabel('Until').fill('2026-01-31T12:00');
    await page.waitForURL(({ hash }) => hash.endsWith(`&until=${encodeURIComponent('2026-01-31T11:00:00.000Z')}`));
    await page.getByText('Nothing matches').waitFor();
    await page.getByLabel('Until').fill('');
    await page.getByLabel('Since').fill('2026-01-31T12:00');
    await page.getByRole('table').getByRole('link', { name: 'payment.completed' }).waitFor();
    await page.getByRole('link', { name: 'Clear filters' }).click();
    await failed.waitFor();

    await page.getByRole('link', { name: 'Events' }).click();
    await page.getByRole('region', { name: 'Failed events' }).getByText('1 failed').first().waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('can be resent together: the selected ones, or all that a filter finds', async () => {
    const id = await webhookOf(scene, receiver);
    receiver.answers(500);
    for (const n of [1, 2, 3]) {
      await scene.live.gateway.publish({ ...payment, data: { ...payment.data, payment_id: `pay_many${n}` } });
    }
    await receiver.count(18);
    const { page, problems } = await scene.signIn(`#/deliveries?webhook=${id}&state=failed`);
    const boxes = page.getByRole('checkbox', { name: /^Select payment\.completed dlv_/ });
    await until(async () => (await boxes.count()) === 3);
    const again = page.getByRole('button', { name: 'Send selected again' });
    expect(await again.getAttribute('title')).to.equal('Select deliveries first');
    receiver.answers(200);
    await boxes.first().check();
    await page.getByRole('button', { name: 'Send 1 again' }).click();
    await page.getByText('1 delivery sent again, 1 of them delivered').waitFor();
    await until(async () => (await boxes.count()) === 2);
    await page.getByLabel('Select all on this page').check();
    await page.getByRole('button', { name: 'Send 2 again' }).waitFor();
    await page.getByRole('button', { name: 'Send all failed again' }).click();
    await page.getByText('2 deliveries are being sent again').waitFor();
    await receiver.count(21);
    expect(problems).to.deep.equal([]);
  });

  it('can be found by id, as can events, webhooks and keys', async () => {
    const id = await webhookOf(scene, receiver);
    const customer = await scene.live.gateway.keys.create({ userId: 'usr_1', name: 'to be found' });
    const event = await scene.live.gateway.publish(payment);
    await receiver.count(1);
    const [delivery] = (await scene.live.call('GET', `/v1/deliveries?event_id=${event.id}`)).body.data;
    const { page, problems } = await scene.signIn('', { key: customer.key });
    for (const [found, view] of [
      [delivery.id, 'Delivery'],
      [event.id, 'Event'],
      [id, 'Webhook id'],
      [customer.id, 'Key id'],
    ] as const) {
      await page.getByLabel('Find by id').fill(` ${found}`);
      await page.keyboard.press('Enter');
      const name = page.getByRole('term').filter({ hasText: new RegExp(`^${view}$`) });
      await page.locator('.facts > div', { has: name }).getByText(found).waitFor();
    }
    await page.getByRole('heading', { name: 'to be found' }).waitFor();
    await page.getByLabel('Find by id').fill('dlv_1');
    await page.keyboard.press('Enter');
    await page.getByText('Enter a whole id').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('that failed are not listed first when they are only tests, and their webhook says why they failed', async () => {
    const id = await webhookOf(scene, receiver);
    receiver.answers(500);
    const { body: test } = await scene.live.call('POST', `/v1/webhooks/${id}/test`, { type: 'credits.low' });
    expect(test.state).to.equal('failed');
    const { page, problems } = await scene.signIn(`#/webhooks/${id}`);
    await page.getByText('– the last attempt failed').waitFor();
    await page.getByText('The receiver answered with this status, which is not 2xx.').waitFor();
    await page.getByText(/^Times are in Europe\/Berlin \(GMT\+[12]\)/).waitFor();
    expect(await page.getByRole('heading', { level: 1 }).textContent()).to.include('http://127.0.0.1:');
    await page
      .getByRole('region', { name: 'Deliveries', exact: true })
      .getByRole('link', { name: 'credits.low' })
      .waitFor();
    await page.waitForLoadState('networkidle');
    expect(await page.getByRole('region', { name: 'Failed deliveries' }).count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it("show a receiver's response as text, and run none of it", async () => {
    const answer = '<script>alert(1)</script><img src=x onerror="alert(2)"><a href="javascript:alert(3)">x</a>';
    receiver.answers((res) => res.writeHead(200, { 'content-type': 'text/html' }).end(answer));
    const id = await webhookOf(scene, receiver);
    const { page, problems } = await scene.signIn(`#/webhooks/${id}`);
    await page.getByRole('button', { name: 'Send test event' }).click();
    const test = page.getByRole('dialog', { name: 'Send test event' });
    await test.getByRole('button', { name: 'Send test event' }).click();
    await test.getByText(answer).waitFor();
    expect(await test.locator('script, img, pre a').count()).to.equal(0);
    await test.getByRole('link', { name: 'See the delivery' }).click();
    await attempts(page).getByText(answer).waitFor();
    expect(await page.locator('#content script, #content img, pre a').count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it('that were missed can be recovered, with progress', async () => {
    const id = await webhookOf(scene, receiver);
    await scene.live.gateway.webhooks.update('usr_1', id, { active: false });
    for (const n of [1, 2, 3]) {
      await scene.live.gateway.publish({ ...payment, data: { ...payment.data, payment_id: `pay_missed${n}` } });
    }
    const { page, problems } = await scene.signIn(`#/webhooks/${id}`);
    expect(await page.getByRole('button', { name: 'Recover' }).isDisabled()).to.equal(true);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await page.getByRole('button', { name: 'Recover' }).click();
    await page.getByText('3 of 3 sent again · 3 delivered · 0 failed').waitFor();
    await receiver.count(3);
    expect(problems).to.deep.equal([]);
  });

  it('that were missed between two times can be recovered', async () => {
    const id = await webhookOf(scene, receiver);
    await scene.live.gateway.webhooks.update('usr_1', id, { active: false });
    await scene.live.gateway.publish({ ...payment, data: { ...payment.data, payment_id: 'pay_between' } });
    await scene.live.gateway.webhooks.update('usr_1', id, { active: true });
    const { page } = await scene.signIn(`#/webhooks/${id}`);
    await page.getByLabel('From').selectOption('A time of your own…');
    const local = (hours: number) =>
      page.evaluate(`{
        const at = new Date(Date.now() + ${hours} * 3_600_000);
        new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
      }`) as Promise<string>;
    await page.getByLabel('Since').fill(await local(-3));
    await page.getByLabel('Until').fill(await local(-2));
    await page.getByRole('button', { name: 'Recover' }).click();
    await page.getByText('Nothing was missed.').waitFor();
    await page.getByLabel('Until').fill('');
    await page.getByRole('button', { name: 'Recover' }).click();
    await page.getByText('1 of 1 sent again · 1 delivered · 0 failed').waitFor();
    expect(await receiver.count(1)).to.have.length(1);
  });

  it('of another account are not shown, nor its events', async () => {
    const other = await scene.live.gateway.webhooks.create('usr_2', {
      url: receiver.url,
      events: ['payment.completed'],
      secret: 'a-long-enough-secret',
    });
    const event = await scene.live.gateway.publish({ ...payment, userId: 'usr_2' });
    await receiver.count(1);
    const { page } = await scene.signIn(`#/events/${event.id}`);
    await page.getByText(`No event ${event.id}`).waitFor();
    await page.goto(`${scene.dashboard}#/deliveries?webhook=${other.id}`);
    await page.getByText('Nothing matches').waitFor();
    expect(await page.getByText(event.id).count()).to.equal(0);
  });
});
