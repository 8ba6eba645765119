import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import { startReceiver } from '../../deliveries/receiver.ts';
import { forbiddenHosts } from '../../support/forbidden-hosts.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { spec } from '../../support/openapi.ts';
import { operations } from '../../support/spec.ts';
import { eventually } from '../../support/until.ts';
import { json, raw, ScriptedUpstream } from '../../support/upstream.ts';
import { event, flood, ownFields, secret, undocumentedPaths, webhook, wrongCredentials } from './owasp-cases.ts';
import { type Request, sendTo } from './send.ts';

const upstreamKey = 'sk-upstream-owasp';

/** https://owasp.org/API-Security/editions/2023/en/0x11-t10/ */
describe('the OWASP API Security Top 10 (2023)', () => {
  let live: LiveGateway;
  let upstream: ScriptedUpstream;
  let connection: Connection;
  let strangersKey: string;
  const maxWebhooks = 5;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    const upstreams = [{ name: 'up', baseUrl: upstream.baseUrl, apiKey: upstreamKey }];
    connection = await mongoose.createConnection(freshUri()).asPromise();
    live = await startGateway({
      mongo: connection,
      secretKeys: [newSecretKey()],
      upstreams,
      limits: { webhooks: maxWebhooks },
    });
    strangersKey = (await live.gateway.keys.create({ userId: 'usr_stranger' })).key;
  });
  after(async () => {
    await live.close();
    await upstream.close();
    await connection.dropDatabase();
    await connection.close();
  });
  afterEach(async () => {
    const { webhooks } = await live.gateway.webhooks.list('usr_1');
    for (const { id } of webhooks) await live.gateway.webhooks.remove('usr_1', id);
  });

  const create = async (body: object = webhook): Promise<string> =>
    (await live.call('POST', '/v1/webhooks', body)).body.id;

  const send = (method: string, path: string, given: Partial<Request> = {}) =>
    sendTo(live.url, method, path, { key: live.key, ...given });

  it("API1 Broken object level authorization: another account's webhook looks like one that does not exist", async () => {
    const id = await create();
    const nobody = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';
    const before = await live.gateway.webhooks.get('usr_1', id);
    for (const [method, path, body] of [
      ['GET', '', ''],
      ['PATCH', '', '{"active":false}'],
      ['DELETE', '', ''],
      ['POST', '/rotate_secret', '{"secret":"a secret of the stranger"}'],
    ] as const) {
      const theirs = await send(method, `/v1/webhooks/${id}${path}`, { key: strangersKey, body });
      const none = await send(method, `/v1/webhooks/${nobody}${path}`, { key: strangersKey, body });
      expect([theirs.status, theirs.code]).to.deep.equal([404, 'webhook_not_found']);
      expect(theirs.text.replace(id, nobody)).to.equal(none.text);
    }
    expect((await send('GET', '/v1/webhooks', { key: strangersKey })).text).to.include('"data":[]');
    expect(await live.gateway.webhooks.get('usr_1', id)).to.deep.equal(before);
  });

  it('API2 Broken authentication: no operation answers without exactly one valid key, sent as a Bearer token or as x-api-key', async function () {
    this.timeout(240_000);
    const { id: revokedId, key: revoked } = await live.gateway.keys.create({ userId: 'usr_1' });
    await live.gateway.keys.revoke(revokedId);
    for (const { method, path } of operations) {
      const refusals = wrongCredentials(live.key, revoked).map(async (headers) => {
        const answer = await send(method.toUpperCase(), `${path}?api_key=${live.key}`, { key: '', headers });
        expect(answer.status, `${method} ${path} ${Object.keys(headers)}`).to.equal(401);
        expect(answer.headers.get('www-authenticate')).to.equal('Bearer');
      });
      await Promise.all(refusals);
    }
  });

  it('API3 Broken object property level authorization: only documented fields are accepted, and no secret is shown', async () => {
    const id = await create();
    for (const field of ownFields) {
      const created = await live.call('POST', '/v1/webhooks', { ...webhook, [field]: 'usr_stranger' });
      const changed = await live.call('PATCH', `/v1/webhooks/${id}`, { active: true, [field]: 'usr_stranger' });
      const rotated = await live.call('POST', `/v1/webhooks/${id}/rotate_secret`, { secret, [field]: 'x' });
      for (const { status, body } of [created, changed, rotated]) {
        expect([status, body.error.code, body.error.param]).to.deep.equal([400, 'unknown_parameter', field]);
      }
    }
    for (const field of ['url', 'secret']) {
      const { body } = await live.call('PATCH', `/v1/webhooks/${id}`, { [field]: 'https://example.com/elsewhere' });
      expect(body.error.code).to.equal('unknown_parameter');
    }
    const shown = ['id', 'url', 'events', 'active', 'created_at'];
    const single = [...shown, 'secret_rotation', 'disabled', 'health'];
    expect((await live.call('GET', `/v1/webhooks/${id}`)).body).to.have.all.keys(...single);
    expect((await live.call('PATCH', `/v1/webhooks/${id}`, { active: false })).body).to.have.all.keys(...shown);
    expect((await live.call('GET', '/v1/webhooks')).body.data[0]).to.have.all.keys('id', 'url', 'events', 'active');
  });

  it('API4 Unrestricted resource consumption: size, depth, pages, webhooks and changes are limited', async () => {
    const body = gzipSync(Buffer.alloc(20_000_000, ' ')) as unknown as string;
    const headers = { 'content-encoding': 'gzip' };
    expect((await send('POST', '/v1/webhooks', { body, headers })).code).to.equal('request_too_large');
    const large = JSON.stringify({ ...webhook, secret: 'x'.repeat(300_000) });
    expect((await send('POST', '/v1/webhooks', { body: large })).status).to.equal(413);
    expect((await send('POST', '/v1/webhooks', { body: '['.repeat(100_000) })).status).to.equal(400);
    expect((await send('GET', '/v1/webhooks?limit=101')).code).to.equal('invalid_value');
    for (let i = 0; i < maxWebhooks; i += 1) await create();
    expect((await live.call('POST', '/v1/webhooks', webhook)).body.error.code).to.equal('webhook_limit_reached');

    const strict = await startGateway({ limits: { writesPerMinute: 2 } });
    const statuses: number[] = [];
    for (let i = 0; i < 4; i += 1) statuses.push((await strict.call('POST', '/v1/webhooks', webhook)).status);
    const refused = await strict.call('DELETE', '/v1/webhooks/wh_none');
    await strict.close();
    expect([...statuses, refused.status]).to.deep.equal([201, 201, 429, 429, 429]);
    expect(Number(refused.headers.get('retry-after'))).to.be.above(0);
  });

  it('API5 Broken function level authorization: no undocumented method has an effect, however it is sent', async () => {
    const id = await create();
    for (const path of Object.keys(spec.paths)) {
      const item = spec.paths[path] as object;
      const documented = [...Object.keys(item), ...('get' in item ? ['head'] : [])].map((name) => name.toUpperCase());
      const isSocketOnly = !['get', 'post', 'put', 'patch', 'delete'].some((name) => name in item);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND'].filter(
        (m) => !documented.includes(m),
      )) {
        const answer = await send(method, path.replace('{id}', id));
        const refused = isSocketOnly && method === 'GET' ? 426 : 405;
        expect([method, path, answer.status]).to.deep.equal([method, path, refused]);
        if (refused === 426) continue;
        const allowed = (answer.headers.get('allow') ?? '').split(', ');
        expect(isSocketOnly ? ['GET', 'HEAD'] : documented).to.include.members(allowed);
      }
    }
    for (const header of ['x-http-method-override', 'x-http-method', 'x-method-override']) {
      await send('GET', `/v1/webhooks/${id}?_method=DELETE`, { headers: { [header]: 'DELETE' } });
      await send('POST', `/v1/webhooks/${id}/rotate_secret`, { body: '{}', headers: { [header]: 'DELETE' } });
    }
    expect((await send('GET', `/v1/webhooks/${id}`)).status).to.equal(200);
  });

  it('API6 Unrestricted access to sensitive business flows: a limit holds for the account, however many of its keys compete', async () => {
    const keys = [live.key];
    for (let i = 0; i < 3; i += 1) keys.push((await live.gateway.keys.create({ userId: 'usr_1' })).key);
    const body = JSON.stringify(webhook);
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, i) => send('POST', '/v1/webhooks', { key: keys[i % keys.length] ?? '', body })),
    );
    expect(answers.filter(({ status }) => status === 201)).to.have.length(maxWebhooks);
    expect(answers.filter(({ code }) => code === 'webhook_limit_reached')).to.have.length(24 - maxWebhooks);
    expect((await live.gateway.webhooks.list('usr_1')).webhooks).to.have.length(maxWebhooks);
  });

  it('API7 Server side request forgery: neither a URL nor a redirect leads a delivery to an internal address', async () => {
    const strict = await startGateway({ allowPrivateNetworks: [], allowHttp: true });
    for (const host of forbiddenHosts) {
      const { status, body } = await strict.call('POST', '/v1/webhooks', { ...webhook, url: `http://${host}/` });
      expect([host, status, body.error.code]).to.deep.equal([host, 400, 'url_not_allowed']);
    }
    for (const url of ['file:///etc/passwd', 'gopher://example.com/', 'ftp://example.com/', '//example.com/']) {
      expect((await strict.call('POST', '/v1/webhooks', { ...webhook, url })).status, url).to.equal(400);
    }
    await strict.close();

    const inside = await startReceiver(200);
    const outside = await startReceiver((res) => res.writeHead(307, { location: inside.url }).end());
    await create({ ...webhook, url: outside.url });
    await live.gateway.publish(event);
    await outside.count(1);
    // shows that the redirect is not followed
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(inside.received).to.have.length(0);
    await Promise.all([inside.stop(), outside.stop()]);
  });

  it('API8 Security misconfiguration: errors show no internals, and other origins get no access', async () => {
    const failing = await startGateway({
      authenticate: () => {
        throw new Error('connect ECONNREFUSED 10.1.2.3:27017 at /srv/app/secrets.js');
      },
    });
    const response = await fetch(`${failing.url}/v1/webhooks`, { headers: { origin: 'https://evil.example' } });
    const text = await response.text();
    await failing.close();
    expect(response.status).to.equal(500);
    expect(text)
      .to.include('internal_error')
      .and.not.match(/ECONN|10\.1\.2\.3|\.js|\.ts|node_modules| at /);

    const { headers } = await send('GET', '/v1/webhooks', { headers: { origin: 'https://evil.example' } });
    expect(headers.get('content-type')).to.equal('application/json');
    for (const name of ['access-control-allow-origin', 'server', 'set-cookie'])
      expect(headers.has(name), name).to.equal(false);
    const plain = await startGateway({
      allowHttp: undefined as never,
      allowPrivateNetworks: undefined as never,
    });
    const refused = await plain.call('POST', '/v1/webhooks', { ...webhook, url: 'http://example.com/' });
    await plain.close();
    expect(refused.body.error.code).to.equal('url_not_allowed');
  });

  it('API9 Improper inventory management: a path that openapi.yaml does not have is not served', async () => {
    const reached: string[] = [];
    const app = express()
      .use(live.gateway.router)
      .use((req, res) => {
        reached.push(req.path);
        res.status(404).end();
      });
    const host = await listen(app);
    for (const path of undocumentedPaths) {
      const { status } = await fetch(host.url + path, { headers: { authorization: `Bearer ${live.key}` } });
      expect([path, status]).to.deep.equal([path, 404]);
    }
    await host.close();
    expect(reached).to.have.length(undocumentedPaths.length);
  });

  it('API10 Unsafe consumption of APIs: headers, redirects and endless answers of others do no harm', async () => {
    const chat = { body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }) };
    const inside = await startReceiver(200);
    upstream.script = json(
      200,
      { choices: [{}] },
      { 'set-cookie': 'a=b', 'x-internal': '10.1.2.3', location: inside.url },
    );
    const good = await send('POST', '/v1/chat/completions', chat);
    expect(good.status).to.equal(200);
    for (const name of ['set-cookie', 'x-internal', 'location']) expect(good.headers.has(name), name).to.equal(false);
    expect(upstream.last.headers.authorization).to.equal(`Bearer ${upstreamKey}`);

    upstream.script = json(307, {}, { location: inside.url });
    await send('POST', '/v1/chat/completions', chat);
    expect(inside.received, 'a redirect is not followed').to.have.length(0);
    upstream.script = json(401, { error: { message: `Incorrect API key: ${upstreamKey}` } });
    const refused = await send('POST', '/v1/chat/completions', chat);
    expect([refused.status, refused.text.includes(upstreamKey)]).to.deep.equal([502, false]);
    upstream.script = raw('SSH-2.0-OpenSSH_9.6\r\n');
    expect((await send('POST', '/v1/chat/completions', chat)).status).to.equal(502);
    await inside.stop();

    const endless = await startReceiver(flood);
    await create({ ...webhook, url: endless.url });
    const { id: eventId } = await live.gateway.publish(event);
    await endless.count(1);
    const ended = { eventId, state: { $ne: 'pending' } };
    const delivery = await eventually(
      () => connection.collection('gateway_deliveries').findOne(ended),
      (found) => found !== null,
    );
    expect(delivery?.state).to.equal('delivered');
    expect(delivery?.attempts[0].response)
      .to.match(/^(<script>\[2J)+/)
      .and.have.length.below(1_025);
    await endless.stop();
  });
});
