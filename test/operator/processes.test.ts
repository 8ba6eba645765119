import { expect } from 'chai';
import { type DoctorFinding, diagnose } from '../../src/cli/doctor/diagnose.ts';
import { createModelGateway, type ModelGateway } from '../../src/index.ts';
import { createProcessModel } from '../../src/operator/model.ts';
import { createProcessService } from '../../src/operator/processes.ts';
import { watchedDatabase } from '../support/commands.ts';
import { createGateway, type LiveGateway, loopbackOptions, newSecretKey, startGateway } from '../support/gateway.ts';
import { patientUri } from '../support/mongo.ts';
import { paceLimits } from '../support/paced-limits.ts';
import { until } from '../support/until.ts';
import { inTurn, json, ScriptedUpstream } from '../support/upstream.ts';

const answer = json(200, { choices: [{}], usage: { prompt_tokens: 3, completion_tokens: 7, total_tokens: 10 } });
const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const canary = 'sk-canary-of-the-upstream';
const secretKeys = [newSecretKey()];
/** A process counts as live for three times as long, however late a busy machine renews its record. Milliseconds. */
const processInterval = 3_000_000;

describe('The processes that an operator sees', () => {
  // that is over ten times a second here
  paceLimits({ [processInterval]: 100 });
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let other: ModelGateway;

  before(async () => {
    database = await watchedDatabase();
    upstream = await ScriptedUpstream.start();
    const common = {
      mongo: database.connection,
      secretKeys,
      upstreams: [{ name: '$one', baseUrl: upstream.baseUrl, apiKey: canary }],
    };
    const fixed = { processInterval };
    live = await startGateway({ ...common, fixed });
    other = await createGateway({ ...common, fixed });
  });
  after(async () => {
    await other.close();
    await live.close();
    await upstream.close();
    await database.drop();
  });

  const records = () => database.connection.collection<{ _id: string; liveUntil?: Date }>('gateway_processes');
  const get = async (name: string) => {
    const { status, body } = await live.call('GET', `/v1/admin/${name}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body;
  };
  const find = async (check: string): Promise<DoctorFinding | undefined> =>
    (await diagnose({ MONGODB_URI: patientUri(database.uri) })).findings.find((finding) => finding.check === check);

  it('report their role, version and state, and keep the report up to date', async () => {
    const { data } = await get('processes');
    expect(data).to.have.length(2);
    const worker = data.find(({ role }: { role: string }) => role === 'all');
    const api = data.find(({ role }: { role: string }) => role === 'api');
    expect(worker).to.include({ pid: process.pid, is_live: true, attempts_in_progress: 0 });
    expect(worker.id).to.match(/^prc_/);
    const liveUntil = async () => (await records().findOne({ _id: worker.id }))?.liveUntil?.getTime() ?? Number.NaN;
    const wasLiveUntil = await liveUntil();
    expect(api).to.include({ version: worker.version, is_live: true, last_sweep_at: null, clock_skew_seconds: 0 });
    await until(async () => {
      const now = (await get('processes')).data.find(({ id }: { id: string }) => id === worker.id);
      return now.seen_at > worker.seen_at && now.last_sweep_at !== null && now.event_loop_lag_seconds !== null;
    });
    await until(async () => (await liveUntil()) > wasLiveUntil);
    const renewed = (await get('processes')).data.find(({ id }: { id: string }) => id === worker.id);
    expect(Math.abs(Date.parse(renewed.started_at) - Date.parse(worker.started_at))).to.be.below(1_000);
  });

  it('are workers where they make deliveries and use no router', async () => {
    const worker = await createModelGateway({ ...loopbackOptions, mongo: database.connection, secretKeys });
    await worker.start();
    const roles = (await get('processes')).data.map(({ role }: { role: string }) => role);
    await worker.close();
    expect(roles.sort()).to.deep.equal(['all', 'api', 'worker']);
  });

  it('add up the answers of each upstream, with its errors by code, and show neither its address nor its key', async () => {
    upstream.script = inTurn(json(503, {}), answer, json(429, {}), json(400, {}), answer);
    const startedAt = performance.now();
    for (let i = 0; i < 3; i += 1) await live.call('POST', '/v1/chat/completions', chat);
    // a bucket of durations is exact to 10 percent
    const longest = (1.1 * (performance.now() - startedAt)) / 1_000;
    await until(async () => (await get('upstreams')).data[0].requests >= 5);
    const { data } = await get('upstreams');
    expect(data).to.have.length(1);
    expect(data[0]).to.deep.include({
      name: '$one',
      processes: 2,
      breaker: { open: 0, half_open: 0, closed: 2 },
      error_codes: { http_503: 1, http_429: 1 },
      errors: 2,
    });
    expect(data[0].time_to_first_byte_seconds.p50).to.be.within(0, longest);
    expect(data[0].latency_seconds.p95).to.be.within(0, longest);
    const stored = await records().find().toArray();
    expect(JSON.stringify([data, stored])).to.not.match(/canary|127\.0\.0\.1/);
  });

  it('count the deliveries that are due later, without those that are leased', async () => {
    const delivery = (n: number, due: number, lease: object | null = null) => ({
      _id: `dlv_${n}`,
      webhookId: 'wh_none',
      state: 'pending',
      lease,
      claimableAt: new Date(Date.now() + due),
    });
    const deliveries = database.connection.collection<{ _id: string }>('gateway_deliveries');
    await deliveries.insertMany([delivery(1, 3_600_000), delivery(2, 3_600_000), delivery(3, 3_600_000, {})]);
    expect(await get('backlog')).to.deep.equal({
      due: 0,
      due_is_more: false,
      oldest_due_at: null,
      oldest_due_seconds: 0,
      scheduled: 2,
      scheduled_is_more: false,
      fan_outs_pending: 0,
      fan_outs_is_more: false,
      oldest_fan_out_seconds: 0,
      in_progress: 0,
    });
    await deliveries.deleteMany({});
  });

  it('say where counting the backlog stopped', async () => {
    const due = { count: 10_000, oldest: 1, since: new Date() };
    const service = createProcessService(createProcessModel(database.connection, 'gateway_'), {
      size: async () => ({ deliveries: due, events: due }),
      scheduled: async () => ({ count: 3, isMore: true }),
    });
    expect(await service.backlog()).to.include({ dueIsMore: true, scheduledIsMore: true, fanOutsIsMore: true });
  });

  it('are listed by gateway.admin too, with the upstreams and the backlog', async () => {
    expect((await other.admin.processes()).map(({ role }) => role).sort()).to.deep.equal(['all', 'api']);
    expect((await other.admin.upstreams()).map(({ name }) => name)).to.deep.equal(['$one']);
    expect(await other.admin.backlog()).to.include({ due: 0, oldestDueAt: null });
  });

  it('are read through the index expiry', async () => {
    database.forget();
    for (const name of ['processes', 'upstreams', 'backlog']) await get(name);
    const reads = database
      .commandsTo('gateway_processes')
      .filter(({ command }) => command.find !== undefined || command.aggregate !== undefined);
    expect(reads).to.have.length(3);
    for (const { command } of reads) expect(command.hint).to.equal('expiry');
  });

  it('are no longer live once their time has run out, and are removed when they close', async () => {
    const now = Date.now();
    await records().insertOne({
      _id: 'prc_dead',
      hostname: 'h',
      pid: 1,
      version: '0.0.1',
      role: 'worker',
      startedAt: new Date(now - 60_000),
      seenAt: new Date(now - 31_000),
      liveUntil: new Date(now - 1_000),
      attempts: 5,
      relayedCalls: 0,
      upstreams: [],
    } as { _id: string });
    const { data } = await get('processes');
    expect(data.at(-1)).to.include({ id: 'prc_dead', is_live: false });
    expect((await get('backlog')).in_progress).to.equal(0);
    await records().deleteOne({ _id: 'prc_dead' });
    const short = await createGateway({
      mongo: database.connection,
    });
    expect(await records().countDocuments()).to.equal(3);
    const [newest] = await records().find<{ liveUntil: Date; seenAt: Date }>({}).sort({ _id: -1 }).limit(1).toArray();
    // three times the interval in which a process renews its record
    expect(Number(newest?.liveUntil) - Number(newest?.seenAt)).to.equal(30_000);
    await short.close();
    expect(await records().countDocuments()).to.equal(2);
  });

  it('let doctor name missing workers, other versions, wrong clocks, open breakers and hanging upstreams', async () => {
    expect(await find('workers')).to.include({ status: 'ok' });
    expect(await find('process versions')).to.include({ status: 'ok' });
    expect(await find('process clocks')).to.include({ status: 'ok' });
    expect(await find('breakers')).to.include({ status: 'ok', message: 'none, in 2 live processes' });
    expect(await find('hanging upstreams')).to.include({ status: 'ok' });
    const record = {
      hostname: 'host-of-old',
      pid: 7,
      version: '0.0.1',
      role: 'api',
      liveUntil: new Date(Date.now() + 600_000),
      clockSkew: -42,
      upstreams: [
        { name: '$one', breaker: 'open' },
        { name: 'two', breaker: 'closed', isHanging: true },
      ],
    };
    await records().insertOne({ _id: 'prc_old', ...record } as { _id: string });
    const versions = await find('process versions');
    expect(versions).to.include({ status: 'warning' });
    expect(versions?.message).to.include('0.0.1 (host-of-old, pid 7)');
    const clocks = await find('process clocks');
    expect(clocks).to.include({ status: 'warning' });
    expect(clocks?.message).to.include('host-of-old, pid 7: 42.0 s behind');
    const breakers = await find('breakers');
    expect(breakers).to.include({ status: 'failed' });
    expect(breakers?.message).to.equal(
      '$one has an open breaker, which keeps calls away from it, in 1 of 3 live processes (host-of-old, pid 7)',
    );
    const hanging = await find('hanging upstreams');
    expect(hanging).to.include({ status: 'failed' });
    expect(hanging?.message).to.equal(
      'two accepts calls and answers none in 1 of 3 live processes (host-of-old, pid 7)',
    );
    await live.gateway.close();
    expect(await find('workers')).to.include({ status: 'ok' });
    await database.connection
      .collection<{ _id: string }>('gateway_deliveries')
      .insertOne({ _id: 'dlv_9', state: 'pending', claimableAt: new Date(Date.now() - 5_000) } as { _id: string });
    const workers = await find('workers');
    expect(workers).to.include({ status: 'failed' });
    expect(workers?.message).to.include('no live process makes delivery attempts');
    expect(workers?.remedy).to.include('ROLE');
  });
});
