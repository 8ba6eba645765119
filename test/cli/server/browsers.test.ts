import { expect } from 'chai';
import cors from 'cors';
import express from 'express';
import { codeBlocks } from '../../documentation/documents.ts';
import { newSecretKey, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { spec } from '../../support/openapi.ts';
import { CommandProcess } from '../command.ts';

const [page, otherPage, stranger] = ['https://app.example.com', 'http://localhost:5173', 'https://evil.example.com'];

/** What OpenAI's client in a page asks for before a chat. */
const preflight = (origin: string) => ({
  method: 'OPTIONS',
  headers: {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type,x-stainless-arch,x-stainless-retry-count',
  },
});

/** The names of headers in a list. */
const namesIn = (response: Response, header: string) =>
  (response.headers.get(header) ?? '').split(',').map((name) => name.trim().toLowerCase());

/** The headers of answers that openapi.yaml describes. */
function describedHeaders(): string[] {
  const names = new Set<string>();
  JSON.stringify(spec, (key, value: unknown) => {
    if (key === 'headers' && typeof value === 'object' && value !== null)
      for (const name of Object.keys(value)) if (/^[a-z]+(-[a-z]+)+$/.test(name)) names.add(name);
    return value;
  });
  return [...names].filter((name) => name !== 'content-type');
}

describe('a stand-alone gateway with CORS_ORIGINS', () => {
  let gateway: CommandProcess;
  let baseUrl: string;
  let key: string;

  async function start(origins: string | undefined): Promise<void> {
    gateway = new CommandProcess(['start'], {
      ...{ MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', LOG_LEVEL: 'silent' },
      ...{ KEY_REQUESTS_PER_MINUTE: '2', ...(origins !== undefined && { CORS_ORIGINS: origins }) },
    });
    [, baseUrl = ''] = await gateway.until(/^Base URL: (\S+)$/m);
    [, key = ''] = await gateway.until(/^API key: (\S+)$/m);
  }
  /** A request as a page of this origin makes it. */
  const from = (origin: string, path: string, { token = key, body, ...more }: RequestInit & { token?: string } = {}) =>
    fetch(baseUrl + path, {
      ...more,
      ...(body && { method: 'POST', body }),
      headers: { origin, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    });
  const chat = (stream: boolean) =>
    JSON.stringify({ model: 'demo-echo', stream, messages: [{ role: 'user', content: 'Hello' }] });

  function expectReadable(response: Response, origin: string): void {
    expect(response.headers.get('access-control-allow-origin')).to.equal(origin);
    expect(response.headers.get('cross-origin-resource-policy')).to.equal('cross-origin');
    expect(response.headers.get('access-control-allow-credentials')).to.equal(null);
    expect(namesIn(response, 'access-control-expose-headers')).to.include('x-request-id');
  }
  function expectHidden(response: Response): void {
    expect(response.headers.get('access-control-allow-origin')).to.equal(null);
    expect(response.headers.get('cross-origin-resource-policy')).to.equal('same-origin');
  }

  describe('that names two origins', () => {
    before(() => start(`${page}, ${otherPage}`));
    after(() => gateway.end());

    it('answers the preflight of each, for model endpoints and webhooks alike, and asks for no key', async () => {
      for (const origin of [page, otherPage]) {
        for (const path of ['/chat/completions', '/responses', '/webhooks', '/webhooks/wh_1', '/api_keys']) {
          const response = await fetch(baseUrl + path, preflight(origin));
          expect(response.status, path).to.equal(204);
          expect(response.headers.get('access-control-allow-origin'), path).to.equal(origin);
          expect(namesIn(response, 'access-control-allow-headers')).to.include.members(
            preflight(origin).headers['access-control-request-headers'].split(','),
          );
          expect(namesIn(response, 'access-control-allow-methods')).to.include.members(['post', 'patch', 'delete']);
          expect(namesIn(response, 'vary')).to.include('origin');
        }
      }
    });

    it('lets a page read answers, streams and errors, and says in each which headers it may read', async () => {
      const refusals: [response: Response, status: number][] = [
        [await from(page, '/chat/completions', { body: chat(false) }), 200],
        [await from(page, '/chat/completions', { body: chat(true) }), 200],
        [await from(page, '/chat/completions', { body: chat(false) }), 429],
        [await from(page, '/models', { token: 'emg_wrong' }), 401],
        [await from(page, '/nothing'), 404],
        [await from(page, '/webhooks/wh_1'), 404],
        [await from(page, '/webhooks'), 200],
        [await from(page, '/webhooks', { body: 'x'.repeat(300_000) }), 413],
        [await from(page, '/webhooks', { method: 'DELETE' }), 405],
        [await from(page, '/openapi.json'), 200],
      ];
      for (const [response, status] of refusals) {
        expect(response.status).to.equal(status);
        expectReadable(response, page);
        await response.arrayBuffer();
      }
      const [, [stream], [tooMany]] = refusals as [unknown, [Response], [Response]];
      expect(stream.headers.get('content-type')).to.match(/^text\/event-stream/);
      const exposed = namesIn(tooMany, 'access-control-expose-headers');
      expect(exposed).to.include.members(['retry-after', 'retry-after-ms', 'x-ratelimit-remaining-requests']);
    });

    it('exposes every header of answers that openapi.yaml describes', async () => {
      const exposed = namesIn(await from(page, '/models'), 'access-control-expose-headers');
      const described = describedHeaders();
      expect(described).to.include.members(['x-request-id', 'retry-after-ms']);
      expect(exposed).to.include.members(described);
    });

    it('lets no page of another origin read, and none read the dashboard and the probes', async () => {
      expectHidden(await from(stranger, '/models'));
      expectHidden(await from(`${page}.evil.example.com`, '/models'));
      expectHidden(await from('null', '/models'));
      expect(
        (await fetch(`${baseUrl}/models`, preflight(stranger))).headers.get('access-control-allow-origin'),
      ).to.equal(null);
      for (const path of ['/dashboard/', '/dashboard/v1/webhooks', '/healthz', '/readyz']) {
        expectHidden(await fetch(new URL(path, baseUrl), { headers: { origin: page } }));
        const response = await fetch(new URL(path, baseUrl), preflight(page));
        expect(response.headers.get('access-control-allow-origin'), path).to.equal(null);
      }
    });

    it('leaves an OPTIONS that is no preflight to the router', async () => {
      const response = await from(page, '/models', { method: 'OPTIONS' });
      expect(response.status).to.equal(404);
      expectReadable(response, page);
    });

    it('says so when it starts', () => {
      expect(gateway.stdout).to.include(`Browsers: pages of ${page}, ${otherPage} may call /v1 (CORS_ORIGINS)`);
    });
  });

  it('of * lets the pages of every origin read', async () => {
    await start('*');
    try {
      expectReadable(await from(stranger, '/models'), '*');
      expect((await fetch(`${baseUrl}/models`, preflight(page))).status).to.equal(204);
    } finally {
      await gateway.end();
    }
  });

  it('that is not set lets no page read', async () => {
    await start(undefined);
    try {
      expectHidden(await from(page, '/models'));
      expect((await fetch(`${baseUrl}/models`, preflight(page))).status).to.equal(404);
    } finally {
      await gateway.end();
    }
  });
});

describe('a host with cors in front of the router, as docs/mounting.md shows it', () => {
  it('answers preflights, and lets a page read answers, errors and their headers', async () => {
    const block = codeBlocks.find(({ document, code }) => document === 'docs/mounting.md' && code.includes("'cors'"));
    const code = block?.code.replace("import cors from 'cors';", '') ?? '';
    const live = await startGateway();
    const app = express();
    new Function('cors', 'app', 'gateway', code)(cors, app, live.gateway);
    const host = await listen(app);
    try {
      const before = await fetch(`${host.url}/v1/chat/completions`, preflight(page));
      expect([before.status, before.headers.get('access-control-allow-origin')]).to.deep.equal([204, page]);
      const refused = await fetch(`${host.url}/v1/models`, { headers: { origin: page } });
      expect([refused.status, refused.headers.get('access-control-allow-origin')]).to.deep.equal([401, page]);
      expect(namesIn(refused, 'access-control-expose-headers')).to.include.members(describedHeaders());
    } finally {
      await host.close();
      await live.close();
    }
  });
});
