import { expect } from 'chai';
import { until } from '../support/until.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

/** An upstream's error, which does not say what it is about. */
const error = (message = 'Invalid value') => ({
  type: 'error',
  status: 400,
  error: { type: 'invalid_request_error', code: 'invalid_value', message },
});
const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18 };

describe('an error of an upstream that may be about another event, on /v1/responses', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, models: ['gpt-*'], aliases: { dear: 'gpt-dear' } }],
    });
  });
  beforeEach(() => {
    upstream.reset();
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const open = () => SocketClient.open(`${gateway.url}/responses`, gateway.key);
  const send = (event: object) => upstream.socket.send(JSON.stringify(event));
  const ask = { type: 'response.create', model: 'dear', input: 'Name a river', store: false };
  const begin = (id: string, model = 'gpt-dear') =>
    send({ type: 'response.created', response: { id, status: 'in_progress', model, output: [] } });
  const write = () => send({ type: 'response.output_text.delta', delta: 'Tagus. '.repeat(300) });
  const complete = (id: string, model = 'gpt-dear') =>
    send({ type: 'response.completed', response: { id, status: 'completed', model, output: [], usage } });

  it('does not make a response free that begins after it', async () => {
    const client = await open();
    client.send({ type: 'no.such.event' });
    client.send(ask);
    await upstream.got(2);
    send(error());
    await client.event('error');
    begin('resp_1');
    write();
    complete('resp_1');
    await client.event('response.completed');
    const [record] = await gateway.charged(1);
    expect(record).to.include({ model: 'dear', inputTokens: 11, outputTokens: 7, estimated: false });
    client.socket.close();
  });

  it('does not end one that the client leaves', async () => {
    const client = await open();
    client.send(ask);
    await upstream.got(1);
    begin('resp_2');
    write();
    await client.event('response.output_text.delta');
    client.send({ type: 'no.such.event' });
    await upstream.got(2);
    send(error());
    await client.event('error');
    client.socket.close();
    await client.whenClosed();
    complete('resp_2');
    const [record] = await gateway.charged(1);
    expect(record).to.include({ model: 'dear', inputTokens: 11, outputTokens: 7, ending: 'complete' });
  });

  it('ends none that goes on after it', async () => {
    const client = await open();
    client.send(ask);
    await upstream.got(1);
    begin('resp_3');
    await client.event('response.created');
    send(error());
    await client.event('error');
    write();
    await client.event('response.output_text.delta');
    client.socket.close();
    await client.whenClosed();
    complete('resp_3');
    const [failed, record] = await gateway.charged(2);
    expect(failed).to.include({ inputTokens: 0, outputTokens: 0, ending: 'upstream_failed' });
    expect(record).to.include({ model: 'dear', inputTokens: 11, outputTokens: 7, ending: 'complete' });
  });

  it('does not let a response be charged as the next one that is asked for', async () => {
    const client = await open();
    client.send({ type: 'no.such.event' });
    client.send(ask);
    await upstream.got(2);
    send(error());
    await client.event('error');
    client.send({ ...ask, model: 'gpt-cheap' });
    await upstream.got(3);
    begin('resp_4');
    send(error('A response is under way'));
    write();
    complete('resp_4');
    await client.event('response.completed');
    const charged = () => gateway.usage.filter(({ inputTokens }) => inputTokens > 0);
    await until(() => charged().length === 1);
    expect(charged()[0]).to.include({ model: 'dear', inputTokens: 11, outputTokens: 7 });
    client.send({ ...ask, model: 'gpt-cheap' });
    await upstream.got(4);
    begin('resp_5', 'gpt-cheap');
    complete('resp_5', 'gpt-cheap');
    await until(() => charged().length === 2);
    expect(charged()[1]).to.include({ model: 'gpt-cheap', inputTokens: 11 });
    client.socket.close();
  });

  it('costs nothing where the response has failed, and the next one can be asked for', async () => {
    const client = await open();
    client.send({ type: 'response.processed' });
    client.send(ask);
    await upstream.got(2);
    send(error('No such response'));
    await client.event('error');
    client.send(ask);
    await upstream.got(3);
    begin('resp_6');
    send(error('It has failed'));
    await client.event('error', 2);
    client.send(ask);
    await upstream.got(4);
    begin('resp_7');
    complete('resp_7');
    await client.event('response.completed');
    const [failed, whole] = await gateway.charged(2);
    expect(failed).to.include({ inputTokens: 0, ending: 'upstream_failed' });
    expect(whole).to.include({ inputTokens: 11, ending: 'complete' });
    client.socket.close();
  });
});
