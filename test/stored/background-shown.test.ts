import { expect } from 'chai';
import type OpenAI from 'openai';
import { chunks, json, stall } from '../support/upstream.ts';
import { type BackgroundSetup, large, request, running, startBackground } from './background-support.ts';
import { event, failure, responseOf, streamOf } from './support.ts';

describe('responses that are made in the background, before anybody polls them', () => {
  let setup: BackgroundSetup;

  before(async () => {
    setup = await startBackground(60_000);
  });

  after(() => setup.close());

  it('are counted once by what retrieves or cancels at the same time return', async () => {
    const cancelled = responseOf('resp_shown', { status: 'cancelled' });
    for (const show of [
      (client: OpenAI) => client.responses.retrieve('resp_shown'),
      (client: OpenAI) => client.responses.cancel('resp_shown'),
    ]) {
      const { client, userId, counted } = await setup.newAccount();
      setup.calls.created = json(200, responseOf('resp_shown', running));
      setup.states.set('resp_shown', json(200, responseOf('resp_shown', running)));
      await client.responses.create(request);
      setup.states.set('resp_shown', json(200, cancelled));
      await Promise.all([show(client), show(client), show(client)]);
      expect(await counted()).to.include({ inputTokens: 30, outputTokens: 20, estimated: false });
      await setup.stored.deleteMany({ userId });
    }
  });

  it('are counted by their stream when it comes to its end', async () => {
    const whole = await setup.newAccount();
    setup.calls.created = chunks([
      event('response.created', 0, { response: responseOf('resp_whole', running) }),
      ...streamOf('resp_whole').slice(1),
    ]);
    setup.states.delete('resp_whole');
    for await (const _ of await whole.client.responses.create({ ...request, stream: true }));
    expect(await whole.counted()).to.include({ outputTokens: 20, estimated: false, ending: 'complete' });
  });

  it('are counted by their stream when the client disconnects and the upstream keeps nothing', async () => {
    const { client, counted } = await setup.newAccount();
    const rest = streamOf('resp_unkept').slice(1);
    const started = event('response.created', 0, { response: responseOf('resp_unkept', running) });
    setup.calls.created = chunks([started, ...rest], {}, 50);
    const stream = await client.responses.create({ ...request, stream: true });
    for await (const { type } of stream) if (type === 'response.created') break;
    expect(await counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are charged for the text that was streamed, though the cancelled response shows none of it', async () => {
    const { client, counted } = await setup.newAccount();
    const delta = event('response.output_text.delta', 1, { item_id: 'msg_1', delta: 'x'.repeat(9_000) });
    const started = event('response.created', 0, { response: responseOf('resp_read', running) });
    setup.calls.created = stall(started + delta);
    setup.states.set('resp_read', json(200, responseOf('resp_read', { ...running, status: 'cancelled' })));
    const stream = await client.responses.create({ ...request, max_output_tokens: 3_500, stream: true });
    for await (const { type } of stream) {
      if (type !== 'response.output_text.delta') continue;
      await client.responses.cancel('resp_read');
      break;
    }
    const record = await counted();
    expect(record?.estimated).to.equal(true);
    expect(record?.outputTokens).to.be.within(3_000, 3_500);
  });

  it('are charged by their duration when they were streamed and are cancelled without usage and text', async () => {
    const empty = [{ type: 'message', id: 'msg_1', role: 'assistant', status: 'incomplete', content: [] }];
    for (const [limit, output, least, most] of [
      [500, [], 500, 500],
      [500, empty, 500, 510],
      [undefined, [], 6_000, 12_000],
    ] as const) {
      const { client, userId, counted } = await setup.newAccount();
      setup.calls.created = stall(event('response.created', 0, { response: responseOf('resp_timed', running) }));
      const cancelled = { status: 'cancelled', usage: null, output };
      setup.states.set('resp_timed', json(200, responseOf('resp_timed', cancelled)));
      const stream = await client.responses.create({
        ...request,
        ...(limit && { max_output_tokens: limit }),
        stream: true,
      });
      for await (const { type } of stream) if (type === 'response.created') break;
      await setup.stored.updateOne({ _id: 'resp_timed' }, [
        { $set: { 'background.usage.startedAt': { $subtract: ['$background.usage.startedAt', 60_000] } } },
      ]);
      await client.responses.cancel('resp_timed');
      const record = await counted();
      expect(record?.estimated).to.equal(true);
      expect(record?.outputTokens).to.be.within(least, most);
      await setup.stored.deleteMany({ userId });
    }
  });

  it('larger than any buffer are counted by what a retrieve returns', async () => {
    const { client, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_large', running));
    await client.responses.create(request);
    setup.states.set('resp_large', large('resp_large'));
    const { output } = await client.responses.retrieve('resp_large');
    expect(JSON.stringify(output)).to.have.length.greaterThan(17e6);
    expect(await counted()).to.include({ inputTokens: 30, outputTokens: 20, estimated: false });
  });

  it('are counted after their stream was resumed', async () => {
    const { client, counted } = await setup.newAccount({ isIdle: true });
    setup.calls.created = json(200, responseOf('resp_again', running));
    await client.responses.create(request);
    setup.states.set('resp_again', (res, call) => {
      if (call.path.includes('stream=true')) return chunks(streamOf('resp_again').slice(1))(res, call);
      return json(200, responseOf('resp_again'))(res, call);
    });
    for await (const _ of await client.responses.retrieve('resp_again', { stream: true, starting_after: 0 }));
    expect(await counted()).to.include({ outputTokens: 20 });
  });

  it('can be deleted only when they have ended, and are counted then', async () => {
    const { client, userId, counted } = await setup.newAccount({ isIdle: true });
    setup.calls.created = json(200, responseOf('resp_deleted', running));
    setup.states.set('resp_deleted', json(200, responseOf('resp_deleted', running)));
    await client.responses.create(request);
    const refused = await failure(client.responses.delete('resp_deleted'));
    expect([refused.status, refused.code]).to.deep.equal([409, 'response_in_progress']);
    expect(setup.upstream.requests.some(({ method }) => method === 'DELETE')).to.equal(false);
    setup.states.set('resp_deleted', json(200, responseOf('resp_deleted')));
    await client.responses.delete('resp_deleted');
    expect(setup.upstream.last.method).to.equal('DELETE');
    expect(await setup.stored.countDocuments({ userId })).to.equal(0);
    expect(await counted()).to.include({ outputTokens: 20 });
  });

  it('are metered as any other response when the upstream completes them at once', async () => {
    const { client, counted } = await setup.newAccount();
    setup.calls.created = json(200, responseOf('resp_now'));
    expect((await client.responses.create(request)).status).to.equal('completed');
    expect(await counted()).to.include({ outputTokens: 20, ending: 'complete' });
  });

  it('are refused with `store: false`', async () => {
    const { client } = await setup.newAccount();
    const calls = setup.upstream.requests.length;
    const refused = await failure(client.responses.create({ ...request, store: false }));
    expect([refused.status, refused.code, refused.param]).to.deep.equal([400, 'invalid_value', 'store']);
    expect(setup.upstream.requests).to.have.lengthOf(calls);
  });
});
