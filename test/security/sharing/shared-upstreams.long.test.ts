import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer, strangerKey } from '../../support/model-server.ts';
import { hang, json, type RecordedRequest, type Script, ScriptedUpstream, stall } from '../../support/upstream.ts';

/** https://owasp.org/API-Security/editions/2023/en/0xa4-unrestricted-resource-consumption/ */
describe('an account that uses an upstream heavily', () => {
  const answer = json(200, { id: 'answered', choices: [{}] });
  /** What a request asks the upstream to do. */
  const asked = (request: RecordedRequest): string => JSON.parse(request.body.toString()).messages[0].content;
  const byRequest =
    (scripts: Record<string, Script>): Script =>
    (res, request) =>
      (scripts[asked(request)] ?? answer)(res, request);
  const event = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';

  let upstream: ScriptedUpstream;
  let spare: ScriptedUpstream;
  let server: ModelServer;
  let leave: AbortController;
  const pending: Promise<unknown>[] = [];

  beforeEach(async () => {
    leave = new AbortController();
    [upstream, spare] = await Promise.all([ScriptedUpstream.start(), ScriptedUpstream.start()]);
    upstream.script = byRequest({ hang, stall: stall(event), fail: json(500, {}) });
  });
  afterEach(async () => {
    leave.abort();
    await Promise.all(pending.splice(0));
    await server.close();
    await Promise.all([upstream.close(), spare.close()]);
  });

  async function start(maxConcurrency: number, withSpare = false): Promise<void> {
    server = await startModelServer({
      upstreams: [
        { name: 'one', baseUrl: upstream.baseUrl, maxConcurrency },
        ...(withSpare ? [{ name: 'spare', baseUrl: spare.baseUrl, priority: 1 }] : []),
      ],
      retry: { attempts: 1 },
    });
  }

  const call = (content: string, key = callerKey) =>
    fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', stream: content === 'stall', messages: [{ role: 'user', content }] }),
      signal: leave.signal,
    });

  /** Begins calls that do not end, and waits until the upstream has them. */
  async function begin(count: number, content: string, key = callerKey): Promise<void> {
    const expected = upstream.requests.length + count;
    for (let i = 0; i < count; i += 1) pending.push(call(content, key).catch(() => {}));
    await upstream.received(expected);
  }

  it('with 400 hanging calls has its share, is told how many it has, and does not delay the calls of others', async () => {
    await start(600);
    await begin(200, 'hang');
    await begin(200, 'stall');

    const refused = await call('more');
    const { error } = (await refused.json()) as { error: { code: string; message: string } };
    expect([refused.status, error.code]).to.deep.equal([429, 'rate_limit_exceeded']);
    expect(error.message).to.match(/^This account already has 400 model calls under way/);
    expect(refused.headers.get('retry-after')).to.equal('1');
    expect(upstream.requests).to.have.lengthOf(400);

    const times: number[] = [];
    for (let i = 0; i < 20; i += 1) {
      const started = performance.now();
      expect((await call('Hi', strangerKey)).status).to.equal(200);
      times.push(performance.now() - started);
    }
    expect(times.sort((a, b) => a - b)[10], 'median').to.be.below(250);

    leave.abort();
    leave = new AbortController();
    await Promise.all(upstream.requests.slice(0, 400).map(({ closed }) => closed));
    const again = await Promise.all(Array.from({ length: 300 }, () => call('Hi').then(({ status }) => status)));
    expect(again).to.deep.equal(Array(300).fill(200));
  });

  it('beyond its share has its calls answered by another upstream that has room', async () => {
    await start(3, true);
    spare.script = answer;
    await begin(2, 'hang');

    expect((await call('Hi')).status).to.equal(200);
    expect(spare.requests).to.have.lengthOf(1);
    expect((await call('Hi', strangerKey)).status).to.equal(200);
    expect(spare.requests).to.have.lengthOf(1);
  });

  it('and takes its last place causes a 503 with retry-after for another account', async () => {
    await start(1);
    await begin(1, 'hang');

    const refused = await call('Hi', strangerKey);
    const { error } = (await refused.json()) as { error: { code: string } };
    expect([refused.status, error.code, refused.headers.get('retry-after')]).to.deep.equal([503, 'overloaded', '1']);
  });

  it('whose requests make it fail is blocked from it, and no other account is', async () => {
    await start(10);
    for (let i = 0; i < 5; i += 1) expect((await call('fail')).status).to.equal(500);
    const requests = upstream.requests.length;
    expect((await call('Hi')).status).to.equal(502);
    expect(upstream.requests).to.have.lengthOf(requests);

    expect((await call('Hi', strangerKey)).status).to.equal(200);
  });
});
