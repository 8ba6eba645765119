import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { hang, startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { freshUri } from '../../support/mongo.ts';
import { CommandProcess } from '../command.ts';

describe('a stand-alone gateway that is told to end', () => {
  const env = {
    PORT: '0',
    MONGODB_URI: '',
    SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    ATTEMPT_TIMEOUT: '25s',
  };
  let receiver: TestReceiver;
  let gateway: CommandProcess;

  async function start(): Promise<void> {
    gateway = new CommandProcess(['start'], env);
    await gateway.until(/Try a webhook/);
  }

  async function post(path: string, body: object): Promise<void> {
    const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
    const [, key] = await gateway.until(/^API key: (\S+)$/m);
    const response = await fetch(baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(response.status).to.equal(201);
  }

  before(async () => {
    env.MONGODB_URI = freshUri();
    receiver = await startReceiver(hang, 200);
    await start();
  });
  after(async () => {
    await gateway.end();
    await receiver.stop();
  });

  it('waits for an attempt in flight, exits at once at the second signal, and repeats the attempt later', async () => {
    await post('/webhooks', { url: receiver.url, events: ['credits.low'], secret: 'a-long-enough-secret' });
    const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
    await post('/events', { type: 'credits.low', user_id: 'usr_1', data });
    await receiver.count(1);

    gateway.child.kill('SIGTERM');
    await sleep(1_300); // within a second it would count as the same signal, which npm repeats
    expect(gateway.child.exitCode).to.equal(null);
    const second = performance.now();
    expect(await gateway.end()).to.equal(130);
    // the attempt in flight would have gone on for 25 s
    expect(performance.now() - second).to.be.below(8_000);

    await start();
    const [first, again] = await receiver.count(2, 20_000);
    expect(again?.body).to.deep.equal(first?.body);
  });
});
