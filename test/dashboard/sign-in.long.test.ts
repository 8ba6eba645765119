import { expect } from 'chai';
import { listen } from '../support/listen.ts';
import { until } from '../support/until.ts';
import { closeBrowserAfterwards } from './browser.ts';
import { type Scene, startScene } from './scene.ts';

describe('signing in at the dashboard', () => {
  closeBrowserAfterwards();
  let scene: Scene;

  before(async () => {
    scene = await startScene({
      dashboard: {
        path: '/dashboard',
        authenticate: ({ headers }) =>
          /(^|; )host=usr_2(;|$)/.test(headers.cookie ?? '') ? { userId: 'usr_2', scopes: ['webhooks'] } : null,
      },
    });
  });
  after(() => scene?.close());

  it('fails with a wrong key, and says why', async () => {
    const { page, problems } = await scene.open();
    await page.getByLabel('API key').fill('emg_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('not known, has expired or has been revoked').waitFor();
    expect(await page.getByRole('navigation', { name: 'Views' }).count()).to.equal(0);
    // the browser notes every 401: nobody's session when the page opened, and the wrong key
    await until(() => problems.length >= 2);
    expect(problems).to.have.length(2);
    for (const problem of problems) expect(problem).to.include('status of 401');
  });

  it('draws the field of a wrong key in the colour of errors', async () => {
    const { page } = await scene.open();
    await page.getByLabel('API key').fill('emg_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('not known').waitFor();
    const border = await page.evaluate("getComputedStyle(document.querySelector('input')).borderTopColor");
    expect(border).to.equal(await page.evaluate(`getComputedStyle(document.querySelector('[role="alert"]')).color`));
  });

  it('keeps a valid key in its tab alone, out of every URL, until sign-out', async () => {
    const { page } = await scene.signIn('#/webhooks');
    const addresses: string[] = [];
    page.on('request', (request) => addresses.push(request.url(), request.headers().referer ?? ''));
    await page.reload();
    await page.getByRole('heading', { name: 'Webhooks' }).waitFor();
    await page.getByRole('link', { name: 'Deliveries' }).click();
    await page.getByRole('heading', { name: 'Deliveries' }).waitFor();
    expect([...addresses, page.url()].filter((address) => address.includes(scene.live.key))).to.deep.equal([]);
    const kept = () => page.evaluate('[{ ...sessionStorage }, { ...localStorage }, document.cookie]');
    expect(await kept()).to.deep.equal([{ 'gateway-api-key': scene.live.key }, {}, '']);

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await kept()).to.deep.equal([{}, {}, '']);
  });

  it('says what a key with the scope models alone cannot see', async () => {
    const { key } = await scene.live.gateway.keys.create({ userId: 'usr_4', scopes: ['models'] });
    const { page, problems } = await scene.signIn('', { key });
    await page.getByText('This key has the scope models, so it shows Usage and Storage alone.').waitFor();
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    await page.goto(`${scene.dashboard}#/webhooks`);
    await page.getByText('This needs the scope webhooks').waitFor();
    expect(problems.filter((problem) => !problem.includes('status of 40'))).to.deep.equal([]);
  });

  it('says when a key has nothing to see', async () => {
    const { key } = await scene.live.gateway.keys.create({ userId: 'usr_4', scopes: ['events:publish'] });
    const { page } = await scene.open();
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('nothing to see here for the scopes events:publish').waitFor();
  });

  it('ends when the key is revoked', async () => {
    const { id, key } = await scene.live.gateway.keys.create({ userId: 'usr_3', scopes: ['webhooks'] });
    const { page } = await scene.signIn('', { key });
    await scene.live.gateway.keys.revoke(id);
    // asking anew or going elsewhere, whichever the page does first
    await page.goto(`${scene.dashboard}#/events`);
    await page.getByText('You are not signed in any more').waitFor();
    expect(await page.evaluate("sessionStorage.getItem('gateway-api-key')")).to.equal(null);
  });

  it("is not needed with the host's session, which decides what is shown", async () => {
    const { page, problems } = await scene.open();
    const { hostname } = new URL(scene.dashboard);
    // the first load was refused for want of a session, and the browser tells so in its own time
    await until(() => problems.length > 0);
    await page.context().addCookies([{ name: 'host', value: 'usr_2', domain: hostname, path: '/' }]);
    problems.length = 0;
    await page.reload();
    await page.getByText('usr_2').waitFor();
    const places = page.getByRole('navigation', { name: 'Views' }).getByRole('link');
    expect(await places.allTextContents()).to.deep.equal([
      'Overview',
      'Webhooks',
      'Events',
      'Deliveries',
      'Event types',
      'Verification',
    ]);
    expect(await page.getByRole('button', { name: 'Sign out' }).count()).to.equal(0);

    await page.getByRole('button', { name: 'Add webhook' }).click();
    await page.getByLabel('URL').fill('http://127.0.0.1:9/hook');
    await page.getByLabel('All events').check();
    await page.getByRole('dialog').getByRole('button', { name: 'Add webhook' }).click();
    await page.getByRole('heading', { name: '127.0.0.1:9/hook' }).waitFor();
    expect((await scene.live.gateway.webhooks.list('usr_2')).webhooks).to.have.length(1);
    expect(problems).to.deep.equal([]);
  });

  it('does not let a page of another origin use that session', async () => {
    const { page } = await scene.open();
    const { hostname } = new URL(scene.dashboard);
    await page.context().addCookies([{ name: 'host', value: 'usr_2', domain: hostname, path: '/' }]);
    const before = (await scene.live.gateway.webhooks.list('usr_2')).webhooks.length;
    // cookies do not know ports: a page of the same host at another port has this one sent along
    let cookie: string | undefined;
    const evil = await listen((req, res) => {
      cookie ??= req.headers.cookie;
      res.setHeader('content-type', 'text/html').end('<!doctype html>');
    });
    try {
      await page.goto(evil.url);
      expect(cookie).to.equal('host=usr_2');
      const answered = page.waitForResponse((response) => response.url().includes('/v1/webhooks'));
      await page.evaluate(
        `void fetch('${scene.dashboard}v1/webhooks', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' })`,
      );
      expect((await answered).status()).to.equal(403);
    } finally {
      await evil.close();
    }
    expect((await scene.live.gateway.webhooks.list('usr_2')).webhooks).to.have.length(before);
  });
});
