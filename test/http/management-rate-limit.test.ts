import { expect } from 'chai';
import { type Listening, listen } from '../support/listen.ts';
import { createFakeEdge, goodKey } from './fake-edge.ts';

const authorization = `Bearer ${goodKey}`;
const webhook = { url: 'https://example.com', events: ['credits.low'], secret: 'long-enough' };

type Call = (method: string, path: string, body?: unknown) => Promise<Response>;

/** Sends a string as it is, anything else as JSON. */
function callAt({ url }: Listening, ...[method, path, body]: Parameters<Call>): Promise<Response> {
  return fetch(url + path, {
    method,
    headers: { authorization, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
}

describe('the limit on changes by an account', () => {
  let server: Listening;
  before(async () => {
    const edge = await createFakeEdge({ writeRateLimit: 3 });
    server = await listen((req, res) => edge(req, res, () => res.end()));
  });
  after(() => server.close());

  const call: Call = (...asked) => callAt(server, ...asked);

  it('counts every kind of change, and says how long to wait', async () => {
    expect((await call('POST', '/v1/webhooks', webhook)).status).to.equal(200);
    expect((await call('PATCH', '/v1/webhooks/wh_1', { active: false })).status).to.equal(200);
    expect((await call('DELETE', '/v1/webhooks/wh_1')).status).to.equal(200);

    const refused = await call('POST', '/v1/webhooks/wh_1/rotate_secret', { secret: 'long-enough' });
    expect(refused.status).to.equal(429);
    const seconds = Number(refused.headers.get('retry-after'));
    expect(seconds).to.be.within(1, 60);
    expect(((await refused.json()) as { error: object }).error).to.deep.equal({
      message: `This account may make 3 changes a minute; try again in ${seconds} s`,
      type: 'rate_limit_error',
      param: null,
      code: 'rate_limit_exceeded',
    });
  });

  it('is checked before the body is parsed', async () => {
    expect((await call('POST', '/v1/webhooks', 'no JSON')).status).to.equal(429);
  });

  it('does not limit reads or model calls', async () => {
    expect((await call('GET', '/v1/webhooks')).status).to.equal(200);
    expect((await call('POST', '/v1/embeddings', { model: 'm', input: 'x' })).status).to.equal(200);
  });

  it('is counted separately for each account', async () => {
    let userId = '';
    const server = await listen(await createFakeEdge({ writeRateLimit: 1, authenticate: () => ({ userId }) }));
    const answers: unknown[] = [];
    for (userId of ['usr_1', 'usr_2', 'usr_1']) {
      const response = await callAt(server, 'POST', '/v1/webhooks', webhook);
      const { error } = (await response.json()) as { error?: { code: string } };
      answers.push(error ? [response.status, error.code] : response.status);
    }
    await server.close();
    expect(answers).to.deep.equal([200, 200, [429, 'rate_limit_exceeded']]);
  });
});

describe('the limit on reads by an account', () => {
  let server: Listening;
  before(async () => {
    const edge = await createFakeEdge({ writeRateLimit: 3, readRateLimit: 2 });
    server = await listen((req, res) => edge(req, res, () => res.end()));
  });
  after(() => server.close());

  const call: Call = (...asked) => callAt(server, ...asked);

  it('counts every GET and HEAD, says how long to wait, and does not limit changes', async () => {
    expect((await call('GET', '/v1/webhooks')).status).to.equal(200);
    expect((await call('HEAD', '/v1/events')).status).to.equal(200);
    for (const path of ['/v1/events?state=failed', '/v1/webhooks/wh_1/stats', '/v1/models', '/v1/deliveries/dlv_1']) {
      const refused = await call('GET', path);
      expect(refused.status, path).to.equal(429);
      const seconds = Number(refused.headers.get('retry-after'));
      expect(seconds).to.be.within(1, 60);
      expect(((await refused.json()) as { error: object }).error).to.deep.equal({
        message: `This account may make 2 reads a minute; try again in ${seconds} s`,
        type: 'rate_limit_error',
        param: null,
        code: 'rate_limit_exceeded',
      });
    }
    expect((await call('POST', '/v1/webhooks', webhook)).status).to.equal(200);
    expect((await call('POST', '/v1/embeddings', { model: 'm', input: 'x' })).status).to.equal(200);
  });
});
