import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { CommandProcess } from '../command.ts';

/** Milliseconds. */
const failFastWithin = 1_000;
const knownWithin = 20_000;

describe('a stand-alone gateway whose database is away', function () {
  this.timeout(90_000);
  let database: BreakableDatabase;
  let upstream: ScriptedUpstream;
  let gateway: CommandProcess;
  let baseUrl = '';
  let key = '';

  before(async () => {
    database = await startBreakableDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, {
      choices: [],
      data: [],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    });
    gateway = new CommandProcess(['start'], {
      PORT: '0',
      MONGODB_URI: database.uri,
      SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
      UPSTREAM_BASE_URL: upstream.baseUrl,
    });
    [, baseUrl = ''] = await gateway.until(/^Base URL: (\S+)$/m);
    [, key = ''] = await gateway.until(/^API key: (\S+)$/m);
  });
  after(async () => {
    await gateway?.end('SIGKILL');
    await upstream?.close();
    await database?.stop();
  });

  async function call(method: string, path: string, body?: object) {
    const startedAt = performance.now();
    const response = await fetch(baseUrl + path, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    const answer = [response.status, error?.code, response.headers.get('retry-after')];
    return { status: response.status, answer, took: performance.now() - startedAt };
  }
  /** Makes these calls at once: each is answered so, and within a second unless this machine is busy. */
  async function expectAtOnce(expected: readonly unknown[], makeCalls: () => ReturnType<typeof call>[]): Promise<void> {
    const slowest = await measureAgain(
      async () => {
        const answers = await Promise.all(makeCalls());
        for (const { answer } of answers) expect(answer).to.deep.equal(expected);
        return Math.max(...answers.map(({ took }) => took));
      },
      (took) => took < failFastWithin,
    );
    expect(slowest).to.be.below(failFastWithin);
  }
  const ask = () => call('POST', '/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
  const list = () => call('GET', '/webhooks');

  it('answers 503 within a second, still serves model calls, and recovers when the database is back', async () => {
    expect((await ask()).status).to.equal(200);
    await database.node.kill();
    try {
      // a call may fail at once before that, where its connection has just broken
      await until(async () => gateway.stderr.includes('the database is unavailable'), knownWithin, 'it is known');
      const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
      await expectAtOnce([503, 'database_unavailable', '1'], () => [
        list(),
        call('GET', '/events'),
        call('POST', '/api_keys', { name: 'laptop', scopes: ['models'] }),
        call('POST', '/events', { type: 'credits.low', user_id: 'usr_1', data }),
      ]);
      await expectAtOnce([200, undefined, null], () => [ask(), ask(), call('GET', '/models')]);
      expect(gateway.child.exitCode).to.equal(null);
    } finally {
      await database.node.start();
    }
    await until(async () => (await list()).status === 200, knownWithin, 'it is back');
    expect((await ask()).status).to.equal(200);
    expect(await gateway.end()).to.equal(0);
  });
});
