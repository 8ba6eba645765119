import { expect } from 'chai';
import { until } from '../support/until.ts';
import { chunks, json, stall } from '../support/upstream.ts';
import { type BackgroundSetup, large, request, running, startBackground } from './background-support.ts';
import { event, failure, responseOf } from './support.ts';

describe('responses that are made in the background and polled', () => {
  let setup: BackgroundSetup;

  before(async () => {
    setup = await startBackground(20);
  });

  after(() => setup.close());

  it('are counted once by the usage of their upstream, although the client does not ask for them again', async () => {
    const { client, counted, recorded } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_quiet', { ...running, status: 'queued' }));
    setup.states.set('resp_quiet', json(200, responseOf('resp_quiet', running)));
    const response = await client.responses.create(request);
    expect(response.status).to.equal('queued');
    const asked = () => setup.upstream.requests.filter(({ path }) => path === '/v1/responses/resp_quiet').length;
    await until(() => asked() > 2);
    expect(recorded()).to.deep.equal([]);

    // what the caller has named usage is not the upstream's word
    const tools = [{ type: 'function', name: 'f', parameters: { usage: { input_tokens: 1e6, output_tokens: 1e6 } } }];
    setup.states.set('resp_quiet', json(200, responseOf('resp_quiet', { tools })));
    expect(await counted()).to.include({
      endpoint: '/responses',
      model: 'm',
      upstream: 'one',
      inputTokens: 30,
      cachedInputTokens: 10,
      outputTokens: 20,
      estimated: false,
      ending: 'complete',
    });
  });

  it('cost nothing when they have failed, and count as no request', async () => {
    const { client, userId, recorded } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_failed', running));
    const error = { code: 'server_error', message: 'The model failed' };
    setup.states.set('resp_failed', json(200, responseOf('resp_failed', { status: 'failed', error })));
    await client.responses.create(request);
    await until(() => recorded().length === 1);
    expect(recorded()[0]).to.include({ inputTokens: 0, outputTokens: 0, estimated: false, ending: 'upstream_failed' });
    const counted = async () => (await setup.gateway.usage?.report(userId, {}))?.lines[0];
    await until(async () => (await counted()) !== undefined);
    expect(await counted()).to.include({ requests: 0 });
    expect((await setup.gateway.credits?.balance(userId))?.creditsRemaining).to.equal(10);
  });

  it('are counted when their stream ends in an error and they run on', async () => {
    const { client, counted, recorded } = await setup.newAccount();
    setup.calls.created = chunks([
      event('response.created', 0, { response: responseOf('resp_on', running) }),
      event('error', 1, { code: 'server_error', message: 'the stream was lost' }),
    ]);
    setup.states.set('resp_on', json(200, responseOf('resp_on', running)));
    const stream = await client.responses.create({ ...request, stream: true });
    const types: string[] = [];
    for await (const { type } of stream) types.push(type);
    expect(types).to.deep.equal(['response.created', 'error']);
    expect(recorded()).to.deep.equal([]);
    setup.states.set('resp_on', json(200, responseOf('resp_on')));
    expect(await counted()).to.include({ outputTokens: 20, ending: 'complete' });
  });

  it('are counted when their client disconnects before the end of their stream', async () => {
    const left = await setup.newAccount();
    setup.calls.created = stall(event('response.created', 0, { response: responseOf('resp_left', running) }));
    setup.states.set('resp_left', json(200, responseOf('resp_left', running)));
    const stream = await left.client.responses.create({ ...request, stream: true });
    for await (const { type } of stream) if (type === 'response.created') break;
    expect(left.recorded()).to.deep.equal([]);
    setup.states.set('resp_left', json(200, responseOf('resp_left')));
    expect(await left.counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are counted once where a repeated request got the same response, and nothing stays reserved', async () => {
    const { client, userId, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_repeated', running));
    setup.states.set('resp_repeated', json(200, responseOf('resp_repeated', running)));
    const dear = { ...request, max_output_tokens: 4_000 };
    await client.responses.create(dear);
    await client.responses.create(dear);
    setup.states.set('resp_repeated', json(200, responseOf('resp_repeated')));
    await counted();
    setup.calls.created = json(200, responseOf('resp_after'));
    // nearly all of the balance can be reserved again
    const all = { model: 'm', input: 'Hi', max_output_tokens: 9_000 };
    await until(async () => (await client.responses.create(all).catch(() => null)) !== null);
    expect((await setup.gateway.credits?.balance(userId))?.creditsRemaining).to.be.greaterThan(9);
  });

  it('are counted by another process when the one that took the call does nothing', async () => {
    const { client, counted } = await setup.newAccount({ isIdle: true });
    setup.calls.created = json(200, responseOf('resp_other', running));
    setup.states.set('resp_other', json(200, responseOf('resp_other', { status: 'incomplete' })));
    await client.responses.create(request);
    expect(await counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are counted in the usage record that a dead process has left open', async () => {
    const { client, userId, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_open', running));
    setup.states.set('resp_open', json(200, responseOf('resp_open', running)));
    await client.responses.create(request);
    const { id, ...usage } = (await setup.stored.findOne({ _id: 'resp_open' }))?.background.usage ?? { id: '' };
    await until(async () => (await setup.usages.countDocuments({ userId })) === 0);
    await setup.usages.insertOne({
      _id: id,
      ...usage,
      cachedInputTokens: 0,
      outputTokens: 0,
      images: 0,
      durationMs: 0,
      estimated: true,
      ending: null,
    });
    setup.states.set('resp_open', json(200, responseOf('resp_open')));
    expect(await counted()).to.include({ id, outputTokens: 20 });
    expect(await setup.usages.countDocuments({ userId })).to.equal(1);
  });

  it('are charged by estimate, with a warning, when they do not end in time or their upstream no longer keeps them', async () => {
    for (const [id, state, reason] of [
      ['resp_endless', json(200, responseOf('resp_endless', running)), /not ended in time/],
      ['resp_gone', json(404, {}), /does not keep it/],
    ] as const) {
      const { client, counted } = await setup.newAccount();
      setup.calls.created = json(200, responseOf(id, running));
      setup.states.set(id, state);
      await client.responses.create(request);
      if (id === 'resp_endless') {
        const past = { $set: { 'background.giveUpAt': new Date(0) } };
        await setup.stored.updateOne({ _id: id }, past);
      }
      const record = await counted();
      expect(record).to.include({ outputTokens: 0, estimated: true, ending: 'orphaned' });
      expect(record?.inputTokens).to.be.greaterThan(0);
      const warning = setup.logger.lines.find(({ fields }) => fields?.id === id);
      expect(warning?.fields?.reason).to.match(reason);
    }
  });

  it('larger than any buffer are counted by the usage of their upstream, or without it by the length of their output', async () => {
    for (const [id, fields, expected] of [
      ['resp_long', {}, { inputTokens: 30, outputTokens: 20, estimated: false }],
      ['resp_untold', { usage: null }, { estimated: true, ending: 'complete' }],
    ] as const) {
      const { client, counted } = await setup.newAccount();
      setup.calls.created = json(200, responseOf(id, running));
      setup.states.set(id, large(id, fields));
      await client.responses.create(request);
      const record = await counted();
      expect(record).to.include(expected);
      if (expected.estimated) expect(record?.outputTokens).to.be.greaterThan(17e6 / 3);
    }
  });

  it('are charged by their text when they were cancelled and have no usage', async () => {
    const { client, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_ended', running));
    setup.states.set('resp_ended', json(200, responseOf('resp_ended', { status: 'cancelled', usage: null })));
    await client.responses.create(request);
    const record = await counted();
    // 'Hi' and 'output_text', which say no role, id or type
    expect(record).to.include({ estimated: true, ending: 'complete', outputTokens: 1 });
    expect(record?.inputTokens).to.be.greaterThan(0);
  });

  it('keep their reserved credits until they end', async () => {
    const { client, userId, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_dear', running));
    setup.states.set('resp_dear', json(200, responseOf('resp_dear', running)));
    await client.responses.create({ ...request, max_output_tokens: 9_900 });
    expect((await failure(client.responses.create(request))).status).to.equal(402);
    setup.states.set('resp_dear', json(200, responseOf('resp_dear')));
    await counted();
    setup.calls.created = json(200, responseOf('resp_next'));
    await until(async () => (await client.responses.create(request).catch(() => null)) !== null);
    expect((await setup.gateway.credits?.balance(userId))?.creditsRemaining).to.be.greaterThan(9);
  });
});
