import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { recordingLogger } from '../support/logger.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;

describe('The log of requests and attempts', () => {
  const logger = recordingLogger();
  let live: LiveGateway;
  let upstream: ScriptedUpstream;
  let receiver: TestReceiver;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    receiver = await startReceiver(500, 200);
    const upstreams = [{ name: 'one', baseUrl: upstream.baseUrl, models: ['m'] }];
    live = await startGateway({ upstreams, retryDelays: [20], logger, logRequests: true });
  });
  after(async () => {
    await live.close();
    await receiver.stop();
    await upstream.close();
  });

  /** The fields of the lines since the last look; the times are numbers. */
  function lines(message: string): Record<string, unknown>[] {
    const found = logger.lines.filter((line) => line.message === message);
    logger.lines.length = 0;
    return found.map(({ level, fields = {} }) => {
      expect(level).to.equal('info');
      const { durationMs, keyId, ...rest } = fields;
      expect(durationMs).to.be.a('number');
      if (rest.userId !== undefined && message === 'request') expect(keyId).to.match(/^key_/);
      return rest;
    });
  }

  const ofUser = { userId: 'usr_1' };

  it('has one line for a model call, with model and upstream', async () => {
    upstream.script = json(200, { choices: [{}] });
    const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
    const { headers } = await live.call('POST', '/v1/chat/completions?secret=1', chat);
    const requestId = headers.get('x-request-id');
    await until(() => logger.lines.length > 0);
    const call = { method: 'POST', operation: 'createChatCompletion', ...ofUser };
    expect(lines('request')).to.deep.equal([{ requestId, ...call, status: 200, model: 'm', upstream: 'one' }]);

    const refused = await live.call('POST', '/v1/chat/completions', { ...chat, model: 'other' });
    expect(refused.status).to.equal(404);
    await until(() => logger.lines.length > 0);
    expect(lines('request')).to.deep.equal([
      { requestId: refused.headers.get('x-request-id'), ...call, status: 404, model: 'other', code: 'model_not_found' },
    ]);
  });

  it('has one line for a request that is refused, whoever makes it', async () => {
    const authorization = 'Bearer emg_unknown';
    const unknown = await fetch(`${live.url}/v1/webhooks`, { headers: { authorization } });
    const wrongMethod = await live.call('PUT', '/v1/webhooks/', {});
    await until(() => logger.lines.length === 2);
    expect(lines('request')).to.deep.equal([
      {
        requestId: unknown.headers.get('x-request-id'),
        method: 'GET',
        operation: 'listWebhooks',
        status: 401,
        code: 'invalid_api_key',
      },
      {
        requestId: wrongMethod.headers.get('x-request-id'),
        method: 'PUT',
        operation: 'none',
        status: 405,
        code: 'method_not_allowed',
      },
    ]);
  });

  it('has one line for each attempt, on schedule and asked for', async () => {
    const { body: webhook } = await live.call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'] });
    logger.lines.length = 0;
    const { id: eventId } = await live.gateway.publish(low);
    await until(() => logger.lines.filter(({ message }) => message === 'delivery attempt').length === 2);
    const { body: list } = await live.call('GET', '/v1/deliveries');
    const ids = { deliveryId: list.data[0].id, eventId, webhookId: webhook.id, ...ofUser };
    expect(lines('delivery attempt')).to.deep.equal([
      { ...ids, attempt: 1, outcome: 'failed', status: 500, code: 'http_500' },
      { ...ids, attempt: 2, outcome: 'succeeded', status: 200 },
    ]);
    await live.call('POST', `/v1/deliveries/${ids.deliveryId}/resend`);
    await until(() => logger.lines.some(({ message }) => message === 'delivery attempt'));
    expect(lines('delivery attempt')).to.deep.equal([{ ...ids, manual: true, outcome: 'succeeded', status: 200 }]);
  });
});
