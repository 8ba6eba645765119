import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { ScriptedUpstream, stall } from '../../support/upstream.ts';
import { CommandProcess } from '../command.ts';

const first = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
const second = 'data: {"choices":[{"delta":{"content":"b"}}]}\n\n';
const last =
  'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\ndata: [DONE]\n\n';

describe('a stand-alone gateway that is told to end during a stream', () => {
  let upstream: ScriptedUpstream;
  let gateway: CommandProcess;
  let write: (text: string) => void;
  let finish: () => void;
  let text: Promise<string>;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = (res, request) => {
      write = (piece) => void res.write(piece);
      finish = () => void res.end(last);
      return stall(first)(res, request);
    };
  });
  after(() => upstream.close());
  afterEach(() => gateway.end('SIGKILL'));

  async function startWithStream(env: Record<string, string>): Promise<string> {
    gateway = new CommandProcess(['start'], {
      PORT: '0',
      MONGODB_URI: freshUri(),
      SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
      UPSTREAM_BASE_URL: upstream.baseUrl,
      ...env,
    });
    const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
    const [, key] = await gateway.until(/^API key: (\S+)$/m);
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}',
    });
    text = response.text();
    text.catch(() => {});
    return baseUrl as string;
  }

  /** Tells it to end, and waits until it takes no more requests. */
  async function terminate(baseUrl: string): Promise<void> {
    gateway.child.kill('SIGTERM');
    await until(async () => (await fetch(`${baseUrl}/models`)).status === 503);
  }

  it('lets the stream end, even if that takes seconds, and then exits', async () => {
    await terminate(await startWithStream({}));
    // the seconds that the stream takes
    await sleep(3_000);
    write(second);
    finish();
    expect(await text).to.match(/^data: .*"a".*\n\ndata: .*"b".*\n\n(data: .*\n\n)?data: \[DONE\]\n\n$/);
    expect(await gateway.exited).to.equal(0);
  });

  it('ends the stream with an error event after DRAIN_TIMEOUT', async () => {
    await startWithStream({ DRAIN_TIMEOUT: '100ms' });
    gateway.child.kill('SIGTERM');
    expect(await text).to.match(/"code":"shutting_down"\}\}\n\n$/);
    expect(await gateway.exited).to.equal(0);
  });

  it('is not ready at once and serves on for SHUTDOWN_DELAY', async () => {
    const delay = 3_000;
    const baseUrl = await startWithStream({ SHUTDOWN_DELAY: `${delay}ms` });
    const readiness = new URL('/readyz', baseUrl);
    expect((await fetch(readiness)).status).to.equal(200);
    const toldAt = performance.now();
    gateway.child.kill('SIGTERM');
    await until(async () => (await fetch(readiness)).status === 503);
    // without a key, but not refused because the gateway stops
    expect((await fetch(`${baseUrl}/models`)).status).to.equal(401);
    await until(async () => (await fetch(`${baseUrl}/models`)).status === 503);
    expect(performance.now() - toldAt).to.be.at.least(delay);
    finish();
    expect(await text).to.include('[DONE]');
    expect(await gateway.exited).to.equal(0);
  });

  it('ends at once at the second signal', async () => {
    await terminate(await startWithStream({}));
    expect(await gateway.end('SIGINT')).to.equal(130);
  });
});
