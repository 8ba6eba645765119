import { expect } from 'chai';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { CommandProcess } from '../command.ts';

/** The lines of its log. */
function loggedBy(command: CommandProcess | undefined): Record<string, unknown>[] {
  const lines = command?.stderr.split('\n').slice(0, -1) ?? [];
  return lines.map((line) => JSON.parse(line));
}

const secret = 'a-long-enough-secret';

describe('an API and a worker that run apart', () => {
  let api: CommandProcess;
  let worker: CommandProcess | undefined;
  let receiver: CommandProcess;
  const env = { MONGODB_URI: '', SECRET_KEYS: newSecretKey(), PORT: '0' };

  before(() => {
    env.MONGODB_URI = freshUri();
    api = new CommandProcess(['start'], { ...env, ROLE: 'api' });
    receiver = new CommandProcess(['listen', '--port', '0', '--secret', secret]);
  });
  after(async () => {
    await worker?.end();
    await api.end();
    await receiver.end();
  });

  it('share the work: the worker makes the deliveries and serves no API', async () => {
    const [, baseUrl = ''] = await api.until(/^Base URL: (\S+)$/m);
    const [, key = ''] = await api.until(/^API key: (\S+)$/m);
    const [, port] = await receiver.until(/Listening on \S+:(\d+)/);
    const post = (path: string, body: object) =>
      fetch(baseUrl + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const webhook = { url: `http://127.0.0.1:${port}/`, events: ['credits.low'], secret };
    expect((await post('/webhooks', webhook)).status).to.equal(201);
    const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
    expect((await post('/events', { type: 'credits.low', user_id: 'usr_1', data })).status).to.equal(201);
    const readiness = async (url: string) => (await fetch(new URL('/readyz', url))).json();
    expect(await readiness(baseUrl))
      .to.deep.include({ ready: true })
      .and.to.have.nested.property('checks.worker', 'off');
    expect(receiver.stdout).to.not.include('credits.low');

    worker = new CommandProcess(['start'], { ...env, ROLE: 'worker' });
    await receiver.until(/credits\.low {2}evt_\w+ {2}signature valid/);
    const [, workerUrl = ''] = await worker.until(/^Probes: (\S+)$/m);
    expect((await fetch(new URL('/v1/models', workerUrl))).status).to.equal(404);
    expect(await readiness(workerUrl)).to.have.nested.property('checks.worker', 'ok');
    expect(worker.stdout).to.not.include('API key:').and.not.include('Base URL:');

    // not a terminal: JSON
    await until(() =>
      loggedBy(worker).some(({ msg, outcome }) => msg === 'delivery attempt' && outcome === 'succeeded'),
    );
    const request = loggedBy(api).find(({ operation }) => operation === 'createWebhook');
    expect(request).to.include({ level: 'info', msg: 'request', method: 'POST', status: 201, userId: 'usr_1' });
  });
});
