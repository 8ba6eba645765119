import { createServer } from 'node:http';
import { expect } from 'chai';
import { ObjectId } from 'mongodb';
import { processesFor, readMachine } from '../../src/cli/config/machine.ts';
import { checkReplicaSet } from '../../src/cli/doctor/database.ts';
import { type DoctorFinding, diagnose } from '../../src/cli/doctor/diagnose.ts';
import { whileClockStands } from '../support/clock.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { listenOn, nobody } from '../support/listen.ts';
import { freshDatabase, patientUri } from '../support/mongo.ts';
import { paceLimits } from '../support/paced-limits.ts';
import { ForwardProxy } from '../support/servers/forward-proxy.ts';
import { command, RecordedTerminal } from './recorded-terminal.ts';

const old = (seconds: number) => new Date(Date.now() - seconds * 1_000);

describe('express-model-gateway doctor', () => {
  paceLimits();
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let env: { readonly MONGODB_URI: string };
  const [right, wrong] = [newSecretKey(), newSecretKey()];

  before(async () => {
    database = await freshDatabase();
    env = { MONGODB_URI: patientUri(database.uri) };
    const gateway = await createGateway({ mongo: env.MONGODB_URI, secretKeys: [right] });
    await gateway.webhooks.create('usr_1', { url: 'https://example.com/', events: ['credits.low'] });
    await gateway.close();
  });
  after(() => database.drop());

  const collection = (name: string) => database.connection.collection<{ _id: never }>(`gateway_${name}`);
  const find = async (
    check: string,
    more: Record<string, string> = {},
    now?: () => number,
  ): Promise<DoctorFinding[]> => {
    const { findings } = await diagnose({ ...env, ...more }, now);
    return findings.filter((finding) => finding.check === check);
  };
  const status = async (...asked: Parameters<typeof find>) => (await find(...asked)).map((finding) => finding.status);

  it('warns of nothing but the single member on a healthy database, and changes nothing', async () => {
    const names = async () => (await database.connection.listCollections()).map(({ name }) => name).sort();
    const before = await names();
    // a healthy database confirms writes at once, which it does not on a busy machine
    const { code, stdout, stderr } = await whileClockStands(() => command(['doctor'], { env }), performance);
    const notes = stdout.split('\n').filter((line) => line && !/^(ok|skipped) /.test(line));
    expect(notes).to.deep.equal([
      'warning  replica set: the set has one member: what is acknowledged is lost with its disk',
      '         add two members',
    ]);
    expect({ code, stderr }).to.deep.equal({ code: 1, stderr: '0 failed, 1 warning\n' });
    expect(stdout)
      .to.match(/^ok {7}indexes: all \d+ are there$/m)
      .and.include('skipped  sealing keys');
    expect(await names()).to.deep.equal(before);
  });

  it('prints the findings as JSON, and ends with 2 where a check failed', async () => {
    const { code, json } = await command(['doctor', '--json'], { env: { ...env, SECRET_KEYS: wrong } });
    expect(code).to.equal(2);
    expect(json.status).to.equal('failed');
    expect(json.findings).to.deep.include({
      check: 'clock',
      status: 'ok',
      message: 'within a second of the database',
    });
  });

  it('ends with 3 where it was typed wrongly or ended unexpectedly, which is neither a warning nor a failed check', async () => {
    const typo = await command(['doctor', '--jsn'], { env });
    expect(typo.code).to.equal(3);
    expect(typo.stderr).to.include("unknown option '--jsn'");

    class ClosedTerminal extends RecordedTerminal {
      override readonly print = (): never => {
        throw new Error('nobody reads this any more');
      };
    }
    const terminal = new ClosedTerminal({ env });
    expect(await terminal.run('doctor')).to.equal(3);
    expect(terminal.stderr).to.equal('nobody reads this any more\n');
    expect((await command(['doctor', '--help'])).stdout).to.match(/^Exit codes: .* 2 if a check failed,\n3 if /m);
  });

  it('explains the code of an error, of the API or of a delivery, without looking at anything', async () => {
    expect(await command(['doctor', 'model_not_found'])).to.deep.include({
      code: 0,
      stdout: 'model_not_found (404, not_found_error)\n  No provider has this model.\n',
    });
    const { stdout } = await command(['doctor', 'connect_refused']);
    expect(stdout).to.match(/^connect_refused \(an attempt to deliver an event\)\n .* Start the receiver/);
    expect((await command(['doctor', 'http_503', '--json'])).json).to.include({ code: 'http_<status>', status: null });
    const unknown = await command(['doctor', 'http_200_ok']);
    expect(unknown).to.include({ code: 3 });
    expect(unknown.stderr).to.include('No error of the gateway has the code http_200_ok');
  });

  it('names a missing index, a differing one and a foreign one, with a remedy', async () => {
    await collection('events').dropIndex('idempotency');
    await collection('deliveries').dropIndex('due');
    await collection('deliveries').createIndex({ claimableAt: 1 }, { name: 'due' });
    await collection('webhooks').createIndex({ createdAt: 1 }, { name: 'ofSomebody' });
    // as docs/scale.md makes for shard keys
    await collection('webhooks').createIndex({ _id: 'hashed' });
    const found = await find('indexes');
    expect(
      found.map(({ status: state, message }) => [state, message.replace(/ since [^;]+/, '')]),
    ).to.have.deep.members([
      ['failed', 'gateway_events.idempotency is missing'],
      ['failed', 'gateway_deliveries.due has other fields or options than needed'],
      ['warning', "gateway_webhooks.ofSomebody is not the gateway's, used 0 times; it makes writes slower"],
    ]);
    expect(found.find(({ status: state }) => state === 'warning')?.remedy).to.include("dropIndex('ofSomebody')");
    await collection('deliveries').dropIndex('due');
    await collection('webhooks').dropIndex('ofSomebody');
    await collection('webhooks').dropIndex('_id_hashed');
    await command(['migrate'], { env });
    expect(await status('indexes')).to.deep.equal(['ok']);
  });

  it('says once what to run on a database that no gateway has prepared', async () => {
    const fresh = await freshDatabase();
    const unused = { MONGODB_URI: patientUri(fresh.uri) };
    try {
      const prepared = async () => {
        const { code, stdout } = await command(['doctor'], { env: unused });
        return { code, stdout, times: stdout.split('express-model-gateway migrate').length - 1 };
      };
      const unprepared = await prepared();
      expect(unprepared.stdout).to.match(
        /^failed {3}indexes: (\d+) of \1 are missing: no gateway has prepared this database yet\n {9}run `npx express-model-gateway migrate`, or start/m,
      );
      expect(unprepared).to.include({ code: 2, times: 1 });
      await command(['migrate'], { env: unused });
      expect(await whileClockStands(prepared, performance)).to.include({ code: 1, times: 0 });
    } finally {
      await fresh.drop();
    }
  });

  it('names the schema version that this package must not run beside', async () => {
    const change = (fields: object) => collection('schema').updateOne({}, { $set: fields });
    await change({ version: 9, compatibleFrom: 9, packageVersion: '9.0.0' });
    const [found] = await find('schema version');
    expect(found).to.include({ status: 'failed', remedy: 'run 9.0.0 or a newer version' });
    await change({ version: 0, compatibleFrom: 0 });
    expect(await status('schema version')).to.deep.equal(['warning']);
    await change({ version: 1, compatibleFrom: 1, packageVersion: '0.1.0' });
  });

  it('says how many processes the start runs here, and why', async () => {
    const message = async (more: Record<string, string>) => (await find('processes', more))[0]?.message;
    const { count, reason } = processesFor(readMachine());
    expect(await message({})).to.equal('start serves with 1');
    expect(await message({ WORKERS: '3', METRICS_PORT: '9464' })).to.equal(
      'start serves with 3; metrics on ports 9464 to 9466',
    );
    expect(await message({ WORKERS: 'auto' })).to.equal(`start serves with ${count} (WORKERS=auto: ${reason})`);
    expect(await message({ NODE_ENV: 'production' })).to.equal('start serves with 1');
  });

  it('reports whether SECRET_KEYS opens the secrets, without printing a key', async () => {
    expect(await status('sealing keys', { SECRET_KEYS: right })).to.deep.equal(['ok']);
    const [other] = await find('sealing keys', { SECRET_KEYS: wrong });
    expect(other).to.include({ status: 'failed' });
    expect(other?.message).to.match(/the key 'k1' does not open 1 of 1 secrets: wh_/);
    const [missing] = await find('sealing keys', { SECRET_KEYS: newSecretKey('k2') });
    expect(missing?.message).to.include("sealed with the key 'k1', which is not in SECRET_KEYS");
    expect(JSON.stringify([other, missing])).to.not.include(wrong.slice(3, 20));
  });

  it('reports how far the clock of this machine is from that of the database', async () => {
    for (const [seconds, expected] of [
      [0, 'ok'],
      [-5, 'warning'],
      [600, 'failed'],
      [-600, 'failed'],
    ] as const) {
      const skewed = () => Date.now() + seconds * 1_000;
      const startedAt = performance.now();
      const [found] = await find('clock', {}, skewed);
      expect(found?.status).to.equal(expected);
      if (seconds !== -600) continue;
      const [, behind] = /^this machine is (\d+\.\d) s behind the database/.exec(found?.message ?? '') ?? [];
      // as far as it is certain: less what the answer may have been on its way
      expect(Number(behind)).to.be.within(599.9 - (performance.now() - startedAt) / 1_000, 600);
    }
  });

  it('reports an upstream with an unknown name, refused connections or a refused key', async () => {
    const server = createServer((req, res) => {
      res.writeHead(req.headers.authorization === 'Bearer sk-right-and-long' ? 200 : 401).end('{}');
    });
    const baseUrl = `http://127.0.0.1:${await listenOn(server)}/v1`;
    const first = async (more: Record<string, string>) => (await find('upstreams', more))[0];
    expect(await first({ UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: 'sk-right-and-long' })).to.include({
      status: 'ok',
    });
    const refused = await first({ UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: 'sk-wrong-and-long' });
    expect(refused).to.include({ status: 'failed', remedy: 'check its API key' });
    await new Promise((resolve) => server.close(resolve));
    expect((await first({ UPSTREAM_BASE_URL: nobody }))?.message).to.include('connect_refused');
    const unknown = await first({ UPSTREAM_BASE_URL: 'https://nowhere.invalid/v1' });
    expect(unknown?.message).to.include('dns_failed');
    expect(unknown?.remedy).to.include('name servers');
  });

  it('reports an upstream by its proxy, and a proxy that refuses or is not there, without its password', async () => {
    const server = createServer((_req, res) => void res.end('{}'));
    const port = await listenOn(server);
    const proxy = await ForwardProxy.start({ credentials: 'somebody:canary-right' });
    proxy.hosts['models.invalid'] = port;
    const through = async (HTTP_PROXY: string, more = {}) =>
      (await find('upstreams', { UPSTREAM_BASE_URL: 'http://models.invalid/v1', HTTP_PROXY, ...more }))[0];
    const place = (url: string) => `upstream (http://models.invalid, through ${url.replace(/somebody:.*@/, '')})`;
    try {
      expect(await through(proxy.url())).to.deep.equal({
        check: 'upstreams',
        status: 'ok',
        message: `${place(proxy.url())} answers 200 to a list of its models`,
      });
      const refused = await through(proxy.url('somebody:canary-wrong'));
      expect(refused?.message).to.equal(
        `${place(proxy.url())}: proxy_refused, the proxy refused the connection with 407`,
      );
      expect(refused?.remedy).to.include('credentials').and.include('CONNECT');
      const gone = await through(nobody.replace('//', '//somebody:canary-gone@').replace('/v1', ''));
      expect(gone?.message).to.include('proxy_unreachable').and.not.include('canary');
      const direct = await through(proxy.url(), { NO_PROXY: '.invalid' });
      expect(direct?.message).to.include('upstream (http://models.invalid): dns_failed');
    } finally {
      await proxy.close();
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it('reports the proxy that decides what webhooks may reach, without its password', async () => {
    const proxy = await ForwardProxy.start({ credentials: 'somebody:canary-pass' });
    try {
      const [found] = await find('address guard', { NODE_ENV: 'production', WEBHOOK_PROXY: proxy.url() });
      const { origin } = new URL(proxy.url());
      expect(found).to.include({
        status: 'ok',
        message: `webhooks may be https; the proxy ${origin} decides which addresses they may reach`,
      });
    } finally {
      await proxy.close();
    }
    const env = {
      NODE_ENV: 'production',
      WEBHOOK_PROXY: nobody.replace('//', '//somebody:canary-gone@').replace('/v1', ''),
    };
    const [gone] = await find('address guard', env);
    expect(gone).to.include({ status: 'failed' });
    expect(gone?.message).to.include('connect_refused').and.not.include('canary');
  });

  it('reports settings that let webhooks reach private addresses or use http', async () => {
    const production = { NODE_ENV: 'production' };
    expect(await status('address guard', production)).to.deep.equal(['ok']);
    const link = { ...production, ALLOW_PRIVATE_NETWORKS: '169.254.0.0/16' };
    expect(await status('address guard', link)).to.deep.equal(['failed']);
    const local = { ...production, ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8', ALLOW_HTTP: 'true' };
    expect(await status('address guard', local)).to.deep.equal(['warning', 'warning']);
  });

  it('reports jobs without a delivery, and fan-outs and deliveries that are long overdue', async () => {
    const id = (n: number) => `dlv_${n}` as never;
    expect(await status('jobs')).to.deep.equal(['ok']);
    const data = (n: number) => ({ deliveryId: id(n), attempt: 1 });
    const jobId = (age: number) => ObjectId.createFromTime(Math.floor(Date.now() / 1_000) - age) as never;
    await collection('deliveries').insertOne({ _id: id(1), state: 'pending', claimableAt: old(90) } as never);
    await collection('jobs').insertMany([
      { _id: jobId(600), data: data(1) } as never,
      { _id: jobId(601), data: data(2) } as never,
    ]);
    await collection('events').insertOne({ _id: 'evt_1', fanOut: 'pending', fanOutAt: old(3_600) } as never);
    const [jobs] = await find('jobs');
    expect(jobs).to.include({ status: 'warning' });
    expect(jobs?.message).to.include('gateway_jobs: 1 jobs belong to nothing');
    expect(jobs?.remedy).to.include("run db.getCollection('gateway_jobs').deleteMany({})");
    const [fanOut] = await find('fan-outs');
    expect(fanOut).to.include({ status: 'failed' });
    expect(fanOut?.message).to.match(/^1 events wait for their deliveries, the oldest for 36\d\d s$/);
    expect(fanOut?.remedy).to.include('gateway.start()');
    expect(await status('deliveries')).to.deep.equal(['warning']);
    for (const name of ['jobs', 'deliveries', 'events']) await collection(name).deleteMany({});
  });

  it('reports a database that cannot be reached, without its password', async () => {
    for (const [password, problem] of [
      ['canary-password', 'the database refuses the user name or the password in the URI \\(Authentication failed\\)'],
      ['canary-password%zz', 'the URI is not valid \\(URI malformed\\)'],
    ] as const) {
      const url = new URL(database.uri);
      Object.assign(url, { username: 'somebody', password });
      const { code, stdout, stderr } = await command(['doctor'], { env: { MONGODB_URI: url.href } });
      expect(code).to.equal(2);
      expect(stdout)
        .to.match(new RegExp(`^failed {3}database: MONGODB_URI: ${problem}$`, 'm'))
        .and.include('ok       versions: express-model-gateway');
      expect(stdout + stderr).to.not.include('canary');
    }
  });

  it('says apart what is wrong with a database and what to do, whatever semicolons the message has', async () => {
    const DATA_DIR = '/tmp/a folder; of nobody';
    const [finding] = (await diagnose({ DATA_DIR })).findings.filter(({ check }) => check === 'database');
    expect(finding).to.include({
      status: 'failed',
      message: `DATA_DIR: no gateway is running with ${DATA_DIR}`,
      remedy: 'start one (npm start), or set DATA_DIR or MONGODB_URI as it has them',
    });
  });

  it('reports what a gateway would refuse to start with', async () => {
    for (const [variables, problem] of [
      [{ PORT: 'x' }, /^PORT: must be/],
      [{ SECRET_KEYS: `${right},${wrong}` }, /^SECRET_KEYS: every key needs an id of its own/],
      [{ QUOTA_UNIT: 'tokens' }, /^QUOTA_UNIT: is set without/],
      [{ EVENT_TYPES: '{"Wrong Type":{}}' }, /^EVENT_TYPES/],
      [{ METRICS_HOST: '127.0.0.1' }, /^METRICS_HOST: is set without METRICS_PORT/],
    ] as const) {
      const { findings } = await diagnose({ ...env, ...variables });
      expect(findings.map(({ check, status: state }) => [check, state])).to.deep.equal([['configuration', 'failed']]);
      expect(findings[0]?.message).to.match(problem);
    }
  });

  it('warns of a misspelled variable and of an upstream without a path, as a start does', async () => {
    expect(await status('configuration')).to.deep.equal(['ok']);
    const found = await find('configuration', { SECRET_KEY: right, UPSTREAM_BASE_URL: 'http://127.0.0.1:9' });
    expect(found.map((finding) => finding.status)).to.deep.equal(['warning', 'warning']);
    expect(found[0]?.message).to.include('did you mean SECRET_KEYS?').and.not.include(right);
    expect(found[1]?.message).to.include('has no path');
  });

  describe('judges a replica set', () => {
    const member = (name: string, stateStr: string, lag = 0) => ({ name, stateStr, optimeDate: old(lag) });
    const [one, two] = [member('db1', 'PRIMARY'), member('db2', 'SECONDARY')];
    const rows: readonly [what: string, members: readonly ReturnType<typeof member>[], found: readonly string[]][] = [
      ['of three healthy members', [one, two, member('db3', 'SECONDARY')], ['ok']],
      ['with a member that is down', [one, two, member('db3', '(not reachable/healthy)')], ['warning']],
      ['with a member that is far behind', [one, two, member('db3', 'SECONDARY', 60)], ['warning']],
      ['with an arbiter', [one, two, member('db3', 'ARBITER')], ['warning']],
      ['without a majority', [one, member('db2', 'DOWN'), member('db3', 'DOWN')], ['failed', 'warning']],
    ];
    for (const [what, members, found] of rows) {
      it(what, async () => {
        const status = { set: 'rs', members, writeMajorityCount: 2 };
        const command = async (asked: object) => ('hello' in asked ? { setName: 'rs' } : status);
        const results = await checkReplicaSet({ admin: { command } } as unknown as Parameters<
          typeof checkReplicaSet
        >[0]);
        expect(results.map((result) => result.status)).to.deep.equal(found);
      });
    }
  });
});
