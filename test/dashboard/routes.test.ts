import { expect } from 'chai';
import express, { type RequestHandler } from 'express';
import express4 from 'express4';
import helmet from 'helmet';
import { createModelGateway, type ErrorBody, type ModelGateway, scopes } from '../../src/index.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';

async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as ErrorBody).error.code;
}

describe("the dashboard's routes", () => {
  let gateway: ModelGateway;
  let base: string;
  let key: string;
  let end: () => Promise<void>;

  before(async () => {
    const database = await freshDatabase();
    gateway = await createGateway({
      mongo: database.connection,
      dashboard: {
        path: '/hooks/dashboard',
        authenticate: ({ headers }) =>
          headers.cookie === 'host=usr_2' ? { userId: 'usr_2', scopes: ['webhooks'] } : null,
      },
    });
    ({ key } = await gateway.keys.create({ userId: 'usr_1', scopes }));
    const app = express()
      .use('/api', gateway.router)
      .use((req, res) => {
        res.status(418).send(req.originalUrl);
      });
    const server = await listen(app);
    base = `${server.url}/api`;
    end = async () => {
      await server.close();
      await gateway.close();
      await database.drop();
    };
  });
  after(() => end());

  const get = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
    fetch(`${base}${path}`, { redirect: 'manual', ...init, headers });
  const signedIn = { cookie: 'host=usr_2' };
  const fromThePage = { ...signedIn, 'sec-fetch-site': 'same-origin' };

  describe('the page', () => {
    it('is one document that links its script and style relative to itself', async () => {
      const response = await get('/hooks/dashboard/');
      expect(response.status).to.equal(200);
      expect(response.headers.get('content-type')).to.equal('text/html; charset=utf-8');
      expect(response.headers.get('cache-control')).to.equal('no-cache');
      const html = await response.text();
      expect([...html.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)].map(([, address]) => address)).to.have.length(2);
      for (const [, address = ''] of html.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)) {
        expect(address).to.match(/^assets\/main-[0-9a-f]{12}\.(js|css)$/);
        const asset = await get(`/hooks/dashboard/${address}`);
        expect(asset.status).to.equal(200);
        expect(asset.headers.get('cache-control')).to.equal('public, max-age=31536000, immutable');
      }
      expect(html).to.not.match(/<script>|<style|\sstyle=|\son\w+=/);
      expect(html).to.include('data-usage="true"').and.include('data-credits="false"');
    });

    it('redirects to the address with a slash', async () => {
      const response = await get('/hooks/dashboard?x=1');
      expect(response.status).to.equal(308);
      expect(new URL(response.headers.get('location') ?? '', `${base}/hooks/dashboard?x=1`).href).to.equal(
        `${base}/hooks/dashboard/`,
      );
    });

    it('may run only its own script', async () => {
      const { headers } = await get('/hooks/dashboard/');
      expect(headers.get('content-security-policy')?.split(';').sort()).to.deep.equal([
        "base-uri 'none'",
        "connect-src 'self'",
        "default-src 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "img-src 'self' data:",
        "require-trusted-types-for 'script'",
        "script-src 'self'",
        "style-src 'self'",
        "trusted-types 'none'",
      ]);
      expect(headers.get('x-content-type-options')).to.equal('nosniff');
      expect(headers.get('x-frame-options')).to.equal('DENY');
      expect(headers.get('referrer-policy')).to.equal('no-referrer');
    });

    it('finds its script even if another process serves a newer version', async () => {
      const response = await get('/hooks/dashboard/assets/main-0123456789ab.js');
      expect(response.status).to.equal(200);
      expect(response.headers.get('cache-control')).to.equal('no-cache');
    });

    it('takes less than 60 KB, gzipped', async () => {
      const html = await (await get('/hooks/dashboard/')).text();
      const addresses = ['', ...[...html.matchAll(/(?:src|href)="(assets[^"]+)"/g)].map(([, address]) => address)];
      const sizes = await Promise.all(
        addresses.map(async (address) => {
          const response = await get(`/hooks/dashboard/${address}`, { 'accept-encoding': 'gzip' });
          expect(response.headers.get('content-encoding')).to.equal('gzip');
          return Number(response.headers.get('content-length'));
        }),
      );
      expect(sizes).to.have.length(3);
      expect(sizes.reduce((sum, size) => sum + size)).to.be.below(60_000);
    });

    it('has what every code of an error means, of the API and of deliveries, for who is signed in', async () => {
      for (const headers of [{}, { authorization: 'Bearer emg_wrong' }]) {
        expect((await get('/hooks/dashboard/errors.json', headers)).status).to.equal(401);
      }
      expect((await get('/hooks/dashboard/errors.json', fromThePage)).status).to.equal(200);
      const response = await get('/hooks/dashboard/errors.json', { authorization: `Bearer ${key}` });
      expect(response.headers.get('content-type')).to.equal('application/json; charset=utf-8');
      const { data } = (await response.json()) as { data: { code: string; meaning: string }[] };
      expect(data).to.deep.include({
        code: 'model_not_found',
        status: 404,
        type: 'not_found_error',
        meaning: 'No provider has this model.',
      });
      const codes = data.map(({ code }) => code);
      expect(codes).to.include.members(['connect_refused', 'http_<status>']);
      expect(new Set(codes)).to.have.property('size', codes.length);
      expect(data.filter(({ meaning }) => !meaning.endsWith('.'))).to.deep.equal([]);
    });

    it('accepts only GET and HEAD', async () => {
      const response = await get('/hooks/dashboard/', {}, { method: 'POST' });
      expect(response.status).to.equal(405);
      expect(response.headers.get('allow')).to.equal('GET, HEAD');
      expect((await get('/hooks/dashboard/', {}, { method: 'HEAD' })).status).to.equal(200);
    });

    it("leaves every other path to the host, the API's own included", async () => {
      for (const path of ['/hooks/dashboard/nothing', '/hooks/dashboards', '/hooks', '/hooks/dashboard/v1/nothing']) {
        const response = await get(path);
        expect(response.status, path).to.equal(418);
        expect(await response.text()).to.equal(`/api${path}`);
      }
      expect((await get('/v1/webhooks')).status).to.equal(401);
    });
  });

  describe('the API reference', () => {
    it('is a separate document beside the dashboard, with or without a trailing slash', async () => {
      const redirected = await get('/hooks/dashboard/reference');
      expect(redirected.status).to.equal(308);
      expect(new URL(redirected.headers.get('location') ?? '', `${base}/hooks/dashboard/reference`).href).to.equal(
        `${base}/hooks/dashboard/reference/`,
      );
      const response = await get('/hooks/dashboard/reference/');
      expect(response.headers.get('content-type')).to.equal('text/html; charset=utf-8');
      const html = await response.text();
      expect(html)
        .to.include('data-root="../../../"')
        .and.not.match(/<script>|<style|\sstyle=|\son\w+=/);
      const assets = [...html.matchAll(/(?:src|href)="(assets\/reference-[0-9a-f]{12}\.(?:js|css))"/g)];
      expect(assets).to.have.length(2);
      for (const [, address] of assets) {
        const asset = await get(`/hooks/dashboard/reference/${address}`, { 'accept-encoding': 'identity' });
        expect(asset.status).to.equal(200);
        expect(asset.headers.get('cache-control')).to.equal('public, max-age=31536000, immutable');
        expect(Number(asset.headers.get('content-length'))).to.equal((await asset.arrayBuffer()).byteLength);
      }
    });

    it('may run only its own script', async () => {
      const { headers } = await get('/hooks/dashboard/reference/');
      expect(headers.get('content-security-policy')?.split(';').sort()).to.deep.equal([
        "base-uri 'none'",
        "connect-src 'self'",
        "default-src 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "img-src 'self' data:",
        "script-src 'self'",
        "style-src 'self'",
      ]);
      expect(headers.get('x-content-type-options')).to.equal('nosniff');
    });

    it('takes at most 500 KB, gzipped', async () => {
      const html = await (await get('/hooks/dashboard/reference/')).text();
      let size = 0;
      for (const [, address] of html.matchAll(/(?:src|href)="(assets[^"]+)"/g)) {
        const response = await get(`/hooks/dashboard/reference/${address}`, { 'accept-encoding': 'gzip' });
        size += Number(response.headers.get('content-length'));
      }
      expect(size).to.be.within(100_000, 500_000);
    });
  });

  describe('a session', () => {
    it('shows the account and scopes of a key', async () => {
      const response = await get('/hooks/dashboard/session', { authorization: `Bearer ${key}` });
      expect(response.headers.get('cache-control')).to.equal('no-store');
      expect(await response.json()).to.deep.equal({
        user_id: 'usr_1',
        scopes: [...scopes],
        via: 'key',
        models: null,
        has_budgets: false,
        expires_at: null,
      });
    });

    it('may come from the host', async () => {
      const response = await get('/hooks/dashboard/session', fromThePage);
      expect(await response.json()).to.include({ user_id: 'usr_2', via: 'session' });
    });

    it('is refused for an unknown key, and without a key', async () => {
      const wrong = await get('/hooks/dashboard/session', { authorization: 'Bearer emg_wrong', ...signedIn });
      expect(wrong.status).to.equal(401);
      expect(await codeOf(wrong)).to.equal('invalid_api_key');
      const nobody = await get('/hooks/dashboard/session');
      expect(nobody.status).to.equal(401);
      expect(await codeOf(nobody)).to.equal('missing_api_key');
    });

    it('gives access to the API below the dashboard, with the scopes that the host sets', async () => {
      const listed = await get('/hooks/dashboard/v1/webhooks', fromThePage);
      expect(listed.status).to.equal(200);
      expect(listed.headers.get('cache-control')).to.equal('no-store');
      expect((await get('/hooks/dashboard/v1/api_keys', fromThePage)).status).to.equal(403);
    });

    it('gives no access to the API itself', async () => {
      expect((await get('/v1/webhooks', fromThePage)).status).to.equal(401);
    });

    const body = JSON.stringify({ url: 'http://127.0.0.1:9', events: ['credits.low'], secret: 'long-enough-secret' });
    const create = (headers: Record<string, string>) =>
      get(
        '/hooks/dashboard/v1/webhooks',
        { 'content-type': 'application/json', ...signedIn, ...headers },
        { method: 'POST', body },
      );

    for (const [who, headers] of [
      ['another site', { 'sec-fetch-site': 'cross-site' }],
      ['another subdomain', { 'sec-fetch-site': 'same-site' }],
      ['an address typed in', { 'sec-fetch-site': 'none' }],
      ['another origin, in an old browser', { origin: 'https://evil.example' }],
      ['a sandboxed frame, in an old browser', { origin: 'null' }],
      ['whoever does not say', {}],
    ] as const) {
      it(`changes nothing for ${who}`, async () => {
        const response = await create(headers);
        expect(response.status).to.equal(403);
        expect(await codeOf(response)).to.equal('cross_origin_request');
        expect((await gateway.webhooks.list('usr_2')).webhooks).to.deep.equal([]);
      });
    }

    it('shows nothing to another site', async () => {
      expect(
        (await get('/hooks/dashboard/v1/webhooks', { ...signedIn, 'sec-fetch-site': 'cross-site' })).status,
      ).to.equal(403);
      expect((await get('/hooks/dashboard/session', { ...signedIn, origin: 'https://evil.example' })).status).to.equal(
        403,
      );
    });

    it('allows changes from the page itself, in an old browser too', async () => {
      expect((await create({ origin: new URL(base).origin })).status).to.equal(201);
      expect((await create({ 'sec-fetch-site': 'same-origin' })).status).to.equal(201);
    });
  });

  it('sends the same bytes gzipped and plain', async () => {
    const plain = await get('/hooks/dashboard/', { 'accept-encoding': 'identity' });
    const squeezed = await get('/hooks/dashboard/', { 'accept-encoding': 'gzip' });
    expect(plain.headers.get('content-encoding')).to.equal(null);
    expect(await squeezed.text()).to.equal(await plain.text());
  });
});

describe('the dashboard in a host of its own', () => {
  it('keeps its content security policy under a prefix of Express 4, behind helmet', async () => {
    const database = await freshDatabase();
    const gateway = await createGateway({
      mongo: database.connection,
      dashboard: { path: '/dashboard' },
      serveOpenApi: false,
      usage: false,
    });
    const server = await listen(
      express4()
        .use(helmet())
        .use('/deep/down', gateway.router as RequestHandler),
    );
    try {
      const page = await fetch(`${server.url}/deep/down/dashboard`);
      expect(page.url).to.equal(`${server.url}/deep/down/dashboard/`);
      expect(page.headers.get('content-security-policy')).to.match(/^default-src 'none';/);
      const html = await page.text();
      expect(html).to.include('data-reference="false"').and.include('data-usage="false"');
      expect((await fetch(`${page.url}reference/`)).status).to.equal(404);
      const [, script] = /src="([^"]+)"/.exec(html) ?? [];
      expect((await fetch(new URL(script ?? '', page.url))).status).to.equal(200);
      expect((await fetch(`${page.url}errors.json`)).status).to.equal(401);
      const { key } = await gateway.keys.create({ userId: 'usr_1' });
      const headers = { authorization: `Bearer ${key}` };
      expect((await fetch(`${page.url}errors.json`, { headers })).status).to.equal(200);
      expect((await fetch(`${page.url}session`, { headers })).status).to.equal(200);
      expect((await fetch(`${page.url}v1/webhooks`, { headers })).status).to.equal(200);
    } finally {
      await server.close();
      await gateway.close();
      await database.drop();
    }
  });
});

describe('the option dashboard', () => {
  const make = (dashboard: unknown) =>
    createModelGateway({ mongo: 'mongodb://127.0.0.1:1', secretKeys: [newSecretKey()], dashboard: dashboard as never });

  for (const [wrong, param] of [
    [true, 'dashboard'],
    [{ path: 'dashboard' }, 'dashboard.path'],
    [{ path: '/' }, 'dashboard.path'],
    [{ path: '/a/../v1' }, 'dashboard.path'],
    [{ path: '/v1/dashboard' }, 'dashboard.path'],
    [{ path: '/dashboard/' }, 'dashboard.path'],
    [{ path: '/dashboard', authenticate: true }, 'dashboard.authenticate'],
    [{ path: '/dashboard', theme: 'dark' }, 'dashboard.theme'],
  ] as const) {
    it(`is refused as ${JSON.stringify(wrong)}`, async () => {
      const error = await make(wrong).catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_options', param });
    });
  }
});
