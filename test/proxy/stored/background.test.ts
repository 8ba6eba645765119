import { expect } from 'chai';
import OpenAI from 'openai';
import { createModelGateway, type ModelGateway, type UsageRecord } from '../../../src/index.ts';
import { type Listening, listen, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { recordingLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { chunks, json, type Script, ScriptedUpstream, stall } from '../../support/upstream.ts';
import { event, failure, responseOf, streamOf } from './support.ts';

const running = { status: 'in_progress', output: [], usage: null };

describe('responses that are made in the background', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;
  let server: Listening;
  /** Another process on the same database, which takes calls and asks no upstream by itself. */
  let idle: ModelGateway;
  let idleServer: Listening;
  const logger = recordingLogger();
  const records: UsageRecord[] = [];
  /** What the upstream answers about a response. */
  const states = new Map<string, Script>();
  /** What it answers a call for a new one. */
  let created: Script;

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = (res, request) => {
      const id = /\/responses\/(resp_\w+)/.exec(request.path)?.[1];
      return (id === undefined ? created : (states.get(id) ?? json(404, {})))(res, request);
    };
    const options = {
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1_000, output: 1_000 } }, initialBalance: 10 },
      backgroundPollInterval: 20,
      backgroundPollLimit: 50,
      onUsage: (record: UsageRecord) => void records.push(record),
      logger,
    };
    gateway = await createModelGateway(options);
    idle = await createModelGateway(options);
    server = await listen((req, res) => gateway.router(req, res));
    idleServer = await listen((req, res) => idle.router(req, res));
    await gateway.start();
  });

  after(async () => {
    await Promise.all([server.close(), idleServer.close()]);
    await Promise.all([gateway.close(), idle.close()]);
    await upstream.close();
    await database.drop();
  });

  let accounts = 0;

  /** The official client of a new account. */
  async function newAccount({ url } = server) {
    accounts += 1;
    const userId = `usr_${accounts}`;
    const { key } = await gateway.keys.create({ userId });
    const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
    const recorded = () => records.filter((record) => record.userId === userId);
    /** Its one record, when it is charged for too. */
    const counted = async () => {
      const sums = async () => (await gateway.usage?.report(userId, {}))?.lines[0];
      await until(async () => (await sums()) !== undefined, 15_000);
      const [record, ...more] = recorded();
      expect(more).to.deep.equal([]);
      const tokens = (record?.inputTokens ?? 0) + (record?.outputTokens ?? 0);
      expect(await sums()).to.include({ requests: 1 });
      const left = (await gateway.credits?.balance(userId))?.creditsRemaining;
      expect(left).to.be.closeTo(10 - tokens / 1_000, 1e-9);
      expect(await uncounted(userId)).to.equal(0);
      return record;
    };
    return { userId, client, recorded, counted };
  }

  const uncounted = (userId: string) =>
    database.connection.collection('gateway_stored').countDocuments({ userId, background: { $exists: true } });

  const usages = () => database.connection.collection<Record<string, unknown> & { _id: string }>('gateway_usage');

  const request = { model: 'm', input: 'Hi', background: true } as const;

  it('are counted as their upstream says, once, although nobody asks for them again', async () => {
    const { client, counted, recorded } = await newAccount();
    created = json(200, responseOf('resp_quiet', { ...running, status: 'queued' }));
    states.set('resp_quiet', json(200, responseOf('resp_quiet', running)));
    const response = await client.responses.create(request);
    expect(response.status).to.equal('queued');
    const asked = () => upstream.requests.filter(({ path }) => path === '/v1/responses/resp_quiet').length;
    await until(() => asked() > 2);
    expect(recorded()).to.deep.equal([]);

    // what the caller has named usage is not the upstream's word
    const tools = [{ type: 'function', name: 'f', parameters: { usage: { input_tokens: 1e6, output_tokens: 1e6 } } }];
    states.set('resp_quiet', json(200, responseOf('resp_quiet', { tools })));
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

  it('are counted by what a retrieve or a cancel shows, and not again by what the gateway asks', async () => {
    const cancelled = responseOf('resp_shown', { status: 'cancelled' });
    for (const show of [
      (client: OpenAI) => client.responses.retrieve('resp_shown'),
      (client: OpenAI) => client.responses.cancel('resp_shown'),
    ]) {
      const { client, userId, counted } = await newAccount();
      created = json(200, responseOf('resp_shown', running));
      states.set('resp_shown', json(200, responseOf('resp_shown', running)));
      await client.responses.create(request);
      states.set('resp_shown', json(200, cancelled));
      await Promise.all([show(client), show(client), show(client)]);
      expect(await counted()).to.include({ inputTokens: 30, outputTokens: 20, estimated: false });
      await database.connection.collection('gateway_stored').deleteMany({ userId });
    }
  });

  it('are counted by their stream, at once when it shows the end, later when the client leaves before', async () => {
    const whole = await newAccount();
    created = chunks([
      event('response.created', 0, { response: responseOf('resp_whole', running) }),
      ...streamOf('resp_whole').slice(1),
    ]);
    states.delete('resp_whole');
    for await (const _ of await whole.client.responses.create({ ...request, stream: true }));
    expect(await whole.counted()).to.include({ outputTokens: 20, estimated: false, ending: 'complete' });

    const left = await newAccount();
    created = stall(event('response.created', 0, { response: responseOf('resp_left', running) }));
    states.set('resp_left', json(200, responseOf('resp_left', running)));
    const stream = await left.client.responses.create({ ...request, stream: true });
    for await (const { type } of stream) if (type === 'response.created') break;
    expect(left.recorded()).to.deep.equal([]);
    states.set('resp_left', json(200, responseOf('resp_left')));
    expect(await left.counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are counted by their stream when the client leaves it and the upstream keeps nothing', async () => {
    const { client, counted } = await newAccount();
    const rest = streamOf('resp_unkept').slice(1);
    const started = event('response.created', 0, { response: responseOf('resp_unkept', running) });
    created = chunks([started, ...rest], {}, 50);
    const stream = await client.responses.create({ ...request, stream: true });
    for await (const { type } of stream) if (type === 'response.created') break;
    expect(await counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are counted once where a repeated request got the same response, and nothing stays reserved', async () => {
    const { client, userId, counted } = await newAccount();
    created = json(200, responseOf('resp_repeated', running));
    states.set('resp_repeated', json(200, responseOf('resp_repeated', running)));
    const dear = { ...request, max_output_tokens: 4_000 };
    await client.responses.create(dear);
    await client.responses.create(dear);
    states.set('resp_repeated', json(200, responseOf('resp_repeated')));
    await counted();
    created = json(200, responseOf('resp_after'));
    // nearly all of the balance can be reserved again
    const all = { model: 'm', input: 'Hi', max_output_tokens: 9_000 };
    await until(async () => (await client.responses.create(all).catch(() => null)) !== null);
    expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.be.greaterThan(9);
  });

  it('are counted after a stream of them that is resumed', async () => {
    const { client, counted } = await newAccount(idleServer);
    created = json(200, responseOf('resp_again', running));
    await client.responses.create(request);
    states.set('resp_again', (res, call) => {
      if (call.path.includes('stream=true')) return chunks(streamOf('resp_again').slice(1))(res, call);
      return json(200, responseOf('resp_again'))(res, call);
    });
    for await (const _ of await client.responses.retrieve('resp_again', { stream: true, starting_after: 0 }));
    expect(await counted()).to.include({ outputTokens: 20 });
  });

  it('are counted by another process where the one that took the call does nothing any more', async () => {
    const { client, counted } = await newAccount(idleServer);
    created = json(200, responseOf('resp_other', running));
    states.set('resp_other', json(200, responseOf('resp_other', { status: 'incomplete' })));
    await client.responses.create(request);
    expect(await counted()).to.include({ outputTokens: 20, estimated: false });
  });

  it('are counted with what a dead process has left open', async () => {
    const { client, userId, counted } = await newAccount();
    created = json(200, responseOf('resp_open', running));
    states.set('resp_open', json(200, responseOf('resp_open', running)));
    await client.responses.create(request);
    const stored = database.connection.collection<{ _id: string; background: { usage: { id: string } } }>(
      'gateway_stored',
    );
    const { id, ...usage } = (await stored.findOne({ _id: 'resp_open' }))?.background.usage ?? { id: '' };
    await until(async () => (await usages().countDocuments({ userId })) === 0);
    await usages().insertOne({
      _id: id,
      ...usage,
      cachedInputTokens: 0,
      outputTokens: 0,
      images: 0,
      durationMs: 0,
      estimated: true,
      ending: null,
    });
    states.set('resp_open', json(200, responseOf('resp_open')));
    expect(await counted()).to.include({ id, outputTokens: 20 });
    expect(await usages().countDocuments({ userId })).to.equal(1);
  });

  it('are charged by estimate, with a warning, when they do not end in time or are kept no longer', async () => {
    for (const [id, state, reason] of [
      ['resp_endless', json(200, responseOf('resp_endless', running)), /not ended in time/],
      ['resp_gone', json(404, {}), /does not keep it/],
    ] as const) {
      const { client, counted } = await newAccount();
      created = json(200, responseOf(id, running));
      states.set(id, state);
      await client.responses.create(request);
      if (id === 'resp_endless') {
        const past = { $set: { 'background.giveUpAt': new Date(0) } };
        await database.connection.collection<{ _id: string }>('gateway_stored').updateOne({ _id: id }, past);
      }
      const record = await counted();
      expect(record).to.include({ outputTokens: 0, estimated: true, ending: 'orphaned' });
      expect(record?.inputTokens).to.be.greaterThan(0);
      const warning = logger.lines.find(({ fields }) => fields?.id === id);
      expect(warning?.fields?.reason).to.match(reason);
    }
  });

  it('keep what is reserved for them until they have ended', async () => {
    const { client, userId, counted } = await newAccount();
    created = json(200, responseOf('resp_dear', running));
    states.set('resp_dear', json(200, responseOf('resp_dear', running)));
    await client.responses.create({ ...request, max_output_tokens: 20_000 });
    expect((await failure(client.responses.create(request))).status).to.be.oneOf([402, 429]);
    states.set('resp_dear', json(200, responseOf('resp_dear')));
    await counted();
    created = json(200, responseOf('resp_next'));
    await until(async () => (await client.responses.create(request).catch(() => null)) !== null);
    expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.be.greaterThan(9);
  });

  it('can be deleted when they have ended, and are counted then', async () => {
    const { client, userId, counted } = await newAccount(idleServer);
    created = json(200, responseOf('resp_deleted', running));
    states.set('resp_deleted', json(200, responseOf('resp_deleted', running)));
    await client.responses.create(request);
    const refused = await failure(client.responses.delete('resp_deleted'));
    expect([refused.status, refused.code]).to.deep.equal([409, 'response_in_progress']);
    expect(upstream.requests.some(({ method }) => method === 'DELETE')).to.equal(false);
    states.set('resp_deleted', json(200, responseOf('resp_deleted')));
    await client.responses.delete('resp_deleted');
    expect(upstream.last.method).to.equal('DELETE');
    expect(await database.connection.collection('gateway_stored').countDocuments({ userId })).to.equal(0);
    expect(await counted()).to.include({ outputTokens: 20 });
  });

  it('are metered as any other where the upstream makes them at once', async () => {
    const { client, counted } = await newAccount();
    created = json(200, responseOf('resp_now'));
    expect((await client.responses.create(request)).status).to.equal('completed');
    expect(await counted()).to.include({ outputTokens: 20, ending: 'complete' });
  });

  it('are refused where nothing could be asked for afterwards', async () => {
    const { client } = await newAccount();
    const calls = upstream.requests.length;
    const refused = await failure(client.responses.create({ ...request, store: false }));
    expect([refused.status, refused.code, refused.param]).to.deep.equal([400, 'invalid_value', 'store']);
    expect(upstream.requests).to.have.lengthOf(calls);
  });
});
