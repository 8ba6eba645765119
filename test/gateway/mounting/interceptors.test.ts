import axios from 'axios';
import { expect } from 'chai';
import { low, type Scene, secret, startScene } from '../../deliveries/over-http.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { signBody } from '../../support/signature.ts';
import { eventually } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const mark = 'x-seen-by-interceptor';

describe('Interceptors of axios', () => {
  const { create } = axios;
  /** What response interceptors saw: the status and path of each call, in order. */
  let seen: string[];
  let upstream: ScriptedUpstream;
  let receiver: TestReceiver;
  let scene: Scene;
  let webhookId: string;

  before(async () => {
    // every instance that the gateway makes has two interceptors
    axios.create = (defaults) => {
      const instance = create(defaults);
      instance.interceptors.request.use((config) => {
        config.headers.set(mark, 'yes');
        return config;
      });
      instance.interceptors.response.use((response) => {
        seen.push(`${response.status} ${new URL(response.config.url ?? '').pathname}`);
        return response;
      });
      return instance;
    };
    upstream = await ScriptedUpstream.start();
    receiver = await startReceiver(200);
    scene = await startScene({
      retryDelays: [10],
      fixed: { recoverRate: 1_000 },
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, apiKey: 'sk-ours' }],
    });
    webhookId = await scene.webhook(receiver.url);
  });

  beforeEach(() => {
    seen = [];
  });

  after(async () => {
    axios.create = create;
    await scene.close();
    await receiver.stop();
    await upstream.close();
  });

  /** Asserts that the last so many deliveries passed the interceptors, and are signed. */
  function passed(...statuses: number[]): void {
    expect(seen).to.deep.equal(statuses.map((status) => `${status} /hook`));
    for (const { headers, body } of receiver.received.slice(-statuses.length)) {
      expect(headers).to.include({ [mark]: 'yes', 'x-service-signature': signBody(body, secret) });
    }
  }
  const isOver = ({ state }: { state: string }) => state !== 'pending';

  it('see every attempt of a delivery, the first and the later ones', async () => {
    receiver.answers(...receiver.received.map(() => 200), 500, 200);
    await scene.published(isOver);
    passed(500, 200);
  });

  it('see a resend', async () => {
    const { id } = await scene.published(isOver);
    seen = [];
    await scene.call('POST', `/v1/deliveries/${id}/resend`);
    passed(200);
  });

  it('see a test event', async () => {
    await scene.call('POST', `/v1/webhooks/${webhookId}/test`, { type: low.type });
    passed(200);
  });

  it('see what a recovery sends', async () => {
    const pause = (active: boolean) => scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active });
    await pause(false);
    const { id } = await scene.gateway.publish(low);
    await pause(true);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const { body } = await scene.call('POST', `/v1/webhooks/${webhookId}/recover`, { since });
    await eventually(
      async () => (await scene.call('GET', `/v1/webhooks/${webhookId}/recoveries/${body.id}`)).body,
      ({ state }) => state === 'done',
    );
    expect(receiver.received.at(-1)?.headers['webhook-id']).to.equal(id);
    passed(200);
  });

  for (const [what, method, path, body, answer] of [
    [
      'a model call',
      'POST',
      '/v1/chat/completions',
      { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
      { choices: [{}] },
    ],
    [
      'a call whose body is changed',
      'POST',
      '/v1/chat/completions',
      { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true },
      { choices: [{}] },
    ],
    ['a call for embeddings', 'POST', '/v1/embeddings', { model: 'm', input: 'Hi' }, { data: [{}] }],
    ['a list of models', 'GET', '/v1/models', undefined, { data: [] }],
  ] as const) {
    it(`see ${what}`, async () => {
      upstream.script = json(200, answer);
      expect((await scene.call(method, path, body)).status).to.equal(200);
      expect(seen).to.deep.equal([`200 ${path}`]);
      expect(upstream.last.headers).to.include({ [mark]: 'yes', authorization: 'Bearer sk-ours' });
    });
  }
});
