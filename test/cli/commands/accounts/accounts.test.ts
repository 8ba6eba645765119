import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { listen } from '../../../support/listen.ts';
import { freshUri } from '../../../support/mongo.ts';
import { until } from '../../../support/until.ts';
import { json, ScriptedUpstream } from '../../../support/upstream.ts';
import { command } from '../../recorded-terminal.ts';
import { type Commanded, startCommanded } from '../gateway-commands.ts';

describe('express-model-gateway keys, credits and usage', () => {
  let live: Commanded;
  let upstream: ScriptedUpstream;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, {
      id: 'c',
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1_200, completion_tokens: 7, total_tokens: 1_207 },
    });
    live = await startCommanded({
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 1, output: 1 } }, lowThreshold: 100 },
    });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  it('keys create shows a key once, with the scopes, models and name given', async () => {
    const made = await live.run('keys', 'create', '--name', 'chat', '--scope', 'models,keys', '--model', 'gpt-5-mini');
    expect(made).to.include({ code: 0, stderr: '' });
    const [, id, key] = /^Key id: (key_\S+)\nAPI key: (emg_\S+)\n$/.exec(made.stdout) ?? [];
    const listed = await live.run('keys', 'list');
    expect(listed.stdout).to.match(new RegExp(`^${id} .* active +models,keys +gpt-5-mini +none +chat$`, 'm'));
    expect(listed.stdout).to.not.include(key);
  });

  it('keys create gives the default scopes when none is named', async () => {
    const { json: made } = await live.run('keys', 'create', '--json');
    expect(made.scopes).to.deep.equal(['models', 'webhooks', 'keys']);
  });

  it('keys create names the existing scopes when one is unknown', async () => {
    const { code, stderr } = await live.run('keys', 'create', '--scope', 'webhook');
    expect(code).to.equal(2);
    expect(stderr).to.include('webhooks').and.include('events:publish');
  });

  it('keys list --json prints what the API answers', async () => {
    const { body } = await live.call('GET', '/v1/api_keys');
    const ids = (page: { data: { id: string }[] }) => page.data.map(({ id }) => id);
    expect(ids((await live.run('keys', 'list', '--json')).json)).to.deep.equal(ids(body));
  });

  it('keys create and keys update set budgets, and keys list shows what was used of them', async () => {
    const budgets = ['--budget', 'day:requests=5', '--budget', 'total:tokens=1000,credits=0.5'];
    const { json: made } = await live.run('keys', 'create', '--name', 'trial', ...budgets, '--json');
    const { stdout } = await live.run('keys', 'list');
    expect(stdout).to.include(`day 0/5 requests; total 0/1,000 tokens; total 0/0.5 credits  trial`);
    const updated = await live.run('keys', 'update', made.id, '--budget', 'month:credits=50');
    expect(updated.stdout).to.equal(`Updated ${made.id}; its budgets: month 0/50 credits\n`);
    const { stdout: removed } = await live.run('keys', 'update', made.id, '--no-budget');
    expect(removed).to.equal(`Updated ${made.id}; its budgets: none\n`);
    const changed = ['--budget', 'total:credits=9007199254740993'];
    for (const wrong of [['--budget', 'week:tokens=1'], ['--budget', 'day:words=1'], changed, []]) {
      expect((await live.run('keys', 'update', made.id, ...wrong)).code, wrong.join(' ')).to.equal(2);
    }
  });

  it('keys revoke makes a key useless', async () => {
    const { json: made } = await live.run('keys', 'create', '--json');
    expect(await live.run('keys', 'revoke', made.id)).to.include({ code: 0, stdout: `Revoked ${made.id}\n` });
    const after = await live.run('webhooks', 'list', '--api-key', made.key);
    expect(after.stderr).to.match(/^invalid_api_key: /);
  });

  it('keys --user acts on another account, with the scope admin', async () => {
    const { json: made } = await live.run('keys', 'create', '--user', 'usr_9', '--name', 'theirs', '--json');
    expect((await live.run('keys', 'list', '--user', 'usr_9')).stdout)
      .to.include(made.id)
      .and.include('theirs');
    expect((await live.run('keys', 'list')).stdout).to.not.include(made.id);
    expect(await live.run('keys', 'revoke', made.id, '--user', 'usr_9')).to.include({ code: 0 });
    const { key } = await live.gateway.keys.create({ userId: 'usr_1' });
    const refused = await live.run('keys', 'list', '--user', 'usr_9', '--api-key', key);
    expect(refused.stderr).to.include('insufficient_scope').and.include('scope admin');
  });

  it('keys --database requires --user, and refuses --base-url', async () => {
    const both = await command(['keys', 'list', '--database', '--user', 'usr_1', '--base-url', live.url]);
    expect(both.code).to.equal(2);
    expect(both.stderr).to.include('--base-url').and.include('--database');
    const nobody = await command(['keys', 'list', '--database']);
    expect(nobody.code).to.equal(2);
    expect(nobody.stderr).to.include('--user');
  });

  it('keys --database refuses credit budgets unless CREDIT_PRICES is set', async () => {
    const env = { MONGODB_URI: freshUri() };
    const options = ['--database', '--user', 'usr_db', '--budget', 'total:credits=5'];
    for (const words of [['create'], ['update', 'key_01kaj3m5x2f7q9w4n8r1t6b0zd']]) {
      const refused = await command(['keys', ...words, ...options], { env });
      expect(refused).to.include({ code: 1, stdout: '' });
      expect(refused.stderr).to.match(/CREDIT_PRICES: is needed for budgets of credits/);
    }
  });

  it('keys --database says so where a gateway of another version keeps its options', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'former-'));
    const running = { uri: freshUri(), pid: process.pid, ports: [] };
    await writeFile(join(dataDir, 'mongo.json'), JSON.stringify(running));
    await writeFile(join(dataDir, 'settings.json'), '{"maxWebhooks":5}\n');
    const env = { DATA_DIR: dataDir };
    const { code, stderr } = await command(['keys', 'list', '--database', '--user', 'usr_1'], { env });
    await rm(dataDir, { recursive: true });
    expect(code).to.equal(1);
    expect(stderr)
      .to.include(`DATA_DIR: the gateway that runs with ${dataDir} is of another version`)
      .and.include('restart');
  });

  it('budgets sets, shows and removes the budgets of an account', async () => {
    const none = await live.run('budgets', 'show', '--user', 'usr_3');
    expect(none).to.include({ code: 0, stdout: 'No budgets.\n' });
    const budgets = ['--budget', 'total:credits=0.5', '--budget', 'month:tokens=1000000,requests=1000'];
    const set = await live.run('budgets', 'set', '--user', 'usr_3', ...budgets);
    expect(set).to.include({ code: 0, stderr: '' });
    expect(set.stdout).to.equal(
      'Budgets of usr_3: month 0/1,000,000 tokens; month 0/1,000 requests; total 0/0.5 credits\n',
    );
    const lines = (await live.run('budgets', 'show', '--user', 'usr_3')).stdout.split('\n');
    expect(lines[0]).to.match(/^PERIOD {2}UNIT {6}USED {4}MAXIMUM {2}RESETS$/);
    expect(lines[1]).to.match(/^month {3}tokens {7}0 {2}1,000,000 {2}in \d+[mhd]$/);
    expect(lines[3]).to.match(/^total {3}credits {6}0 {8}0\.5 {2}never$/);
    const { json: shown } = await live.run('budgets', 'show', '--user', 'usr_3', '--json');
    expect(shown).to.deep.equal((await live.call('GET', '/v1/users/usr_3/budgets')).body);
    const removed = await live.run('budgets', 'remove', '--user', 'usr_3');
    expect(removed.stdout).to.equal('Budgets of usr_3: none\n');
    expect((await live.run('budgets', 'show')).stdout).to.equal('No budgets.\n');
  });

  it('budgets set and remove need an account, a budget and the scope admin', async () => {
    for (const wrong of [['set', '--budget', 'day:tokens=1'], ['set', '--user', 'usr_3'], ['remove']]) {
      expect((await live.run('budgets', ...wrong)).code, wrong.join(' ')).to.equal(2);
    }
    const { key } = await live.gateway.keys.create({ userId: 'usr_1' });
    const refused = await live.run('budgets', 'remove', '--user', 'usr_3', '--api-key', key);
    expect(refused).to.include({ code: 1 });
    expect(refused.stderr).to.include('scope admin');
  });

  it('credits shows the credits left and the low threshold', async () => {
    await live.gateway.credits?.topUp({ userId: 'usr_1', credits: 1234.5, reference: 'welcome' });
    const { stdout } = await live.run('credits');
    expect(stdout).to.match(/^Left +1,234\.5\nTold when below +100\n$/);
    expect((await live.run('credits', '--json')).json).to.deep.equal({ credits_remaining: 1234.5, low_threshold: 100 });
  });

  it('credits top-up adds credits, once per idempotency key', async () => {
    const topUp = () => live.run('credits', 'top-up', '--user', 'usr_2', '--credits', '0.5', '--idempotency-key', 'k');
    expect(await topUp()).to.include({ code: 0, stdout: 'Added 0.5; usr_2 has 0.5 left\n' });
    expect((await topUp()).stdout).to.include('has 0.5 left');
    expect(await live.run('credits', 'top-up', '--user', 'usr_2', '--credits', '-5')).to.include({ code: 2 });
  });

  it('usage sums up calls by the fields asked for', async () => {
    const question = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hi' }] };
    expect((await live.call('POST', '/v1/chat/completions', question)).status).to.equal(200);
    const lines = async (...args: string[]) => (await live.run('usage', ...args)).stdout.split('\n');
    await until(async () => (await lines())[1] !== '');
    const [head, row] = await lines('--by', 'model');
    expect(head).to.match(/^MODEL +REQUESTS +INPUT TOKENS +OUTPUT TOKENS +IMAGES +CREDITS$/);
    expect(row).to.match(/^gpt-5-mini +1 +1,200 +7 +0 +0\.001207$/);
    const { json: report } = await live.run('usage', '--by', 'day,key', '--json');
    expect(report.data[0])
      .to.include({ requests: 1 })
      .and.have.all.keys('day', 'api_key_id', 'requests', 'input_tokens', 'output_tokens', 'images');
  });

  it('usage says when nothing was used, and refuses an unknown grouping or date', async () => {
    const { stdout } = await live.run('usage', '--from', '2020-01-01', '--to', '2020-01-31');
    expect(stdout).to.equal('Nothing was used from 2020-01-01 to 2020-01-31.\n');
    expect(await live.run('usage', '--by', 'week')).to.include({ code: 2 });
    expect((await live.run('usage', '--from', 'January')).stderr).to.match(/^invalid_value: from/);
  });

  it('accounts list shows every account, a page at a time', async () => {
    await live.gateway.keys.create({ userId: 'usr_2' });
    await live.gateway.webhooks.create('usr_2', { url: 'https://example.com', events: ['credits.low'] });
    const all = await live.run('accounts', 'list');
    expect(all).to.include({ code: 0, stderr: '' });
    expect(all.stdout)
      .to.match(/^ACCOUNT +KEYS +WEBHOOKS +REQUESTS/)
      .and.match(/^usr_2 +1 +1 +0 +0 +0 /m);
    const first = await live.run('accounts', 'list', '--limit', '1');
    expect(first.stderr).to.equal('There are more: use --after usr_1\n');
    const { stdout } = await live.run('accounts', 'list', '--prefix', 'usr_', '--after', 'usr_1');
    expect(stdout).to.include('usr_2').and.not.include('usr_1');
    expect((await live.run('accounts', 'list', '--prefix', 'none')).stdout).to.equal('No accounts.\n');
  });

  it('accounts list shows 100 unless another limit is given', async () => {
    const limits: (string | null)[] = [];
    const server = await listen((req, res) => {
      limits.push(new URL(req.url ?? '', 'http://gateway').searchParams.get('limit'));
      res.setHeader('content-type', 'application/json').end('{"data":[],"has_more":false}');
    });
    await live.run('accounts', 'list', '--base-url', server.url);
    await live.run('accounts', 'list', '--limit', '7', '--base-url', server.url);
    await server.close();
    expect(limits).to.deep.equal(['100', '7']);
  });

  it('accounts show prints what an account has, and what it was refused', async () => {
    const { stdout } = await live.run('accounts', 'show', 'usr_2');
    expect(stdout)
      .to.match(/^Account +usr_2$/m)
      .and.match(/^API keys +1 working, 1 in all$/m)
      .and.match(/^Webhooks +wh_\w+ idle https:\/\/example.com$/m)
      .and.match(/^Refused, 24 h +nothing$/m);
    const { json } = await live.run('accounts', 'show', 'usr_2', '--json');
    expect(json.account).to.include({ user_id: 'usr_2' });
  });

  it('find says what an id or an API key names, and sends nothing secret of the key', async () => {
    const { id, key } = await live.gateway.keys.create({ userId: 'usr_3' });
    const { stdout } = await live.run('find', key);
    expect(stdout).to.match(new RegExp(`^api_key +${id} +usr_3 `, 'm'));
    const paths: string[] = [];
    const server = await listen((req, res) => {
      paths.push(req.url ?? '');
      res.setHeader('content-type', 'application/json').end('{"data":[]}');
    });
    await live.run('find', key, '--base-url', server.url);
    await server.close();
    expect(paths).to.have.length(1);
    expect(paths[0]).to.include(key.slice(0, 30)).and.not.include(key.slice(30));
    expect((await live.run('find', 'wh_00000000000000000000000000')).stdout).to.equal('Nothing has that id.\n');
  });

  it('status shows the backlog, processes and upstreams', async () => {
    const { code, stdout } = await live.run('status');
    expect(code).to.equal(0);
    expect(stdout).to.match(/^Deliveries due +0$/m);
    expect(stdout).to.match(new RegExp(`, pid ${process.pid} +(api|all) +\\d+\\.\\d+\\.\\d+ `));
    expect(stdout).to.match(/^scripted +closed +\d+ /m);
    const { json: status } = await live.run('status', '--json');
    expect(status).to.have.all.keys('backlog', 'processes', 'upstreams');
    expect(status.backlog).to.deep.equal((await live.call('GET', '/v1/admin/backlog')).body);
  });

  it('status asks for all three at once', async () => {
    const waiting: (() => void)[] = [];
    const server = await listen((req, res) => {
      waiting.push(() => res.setHeader('content-type', 'application/json').end(`{"data":[],"path":"${req.url}"}`));
      // nobody is answered before all have asked
      if (waiting.length === 3) for (const answer of waiting) answer();
    });
    const { json: status } = await live.run('status', '--json', '--base-url', server.url);
    await server.close();
    expect(status).to.deep.include({ backlog: { data: [], path: '/v1/admin/backlog' }, processes: [], upstreams: [] });
  });
});
