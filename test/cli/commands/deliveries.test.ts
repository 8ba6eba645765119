import { expect } from 'chai';
import type { LiveGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { eventually, until } from '../../support/until.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

const data = { user_id: 'usr_1', credits_remaining: 50, threshold: 100 };
/** What a receiver would answer who means to drive the terminal of whoever looks. */
const evil = '\u001b[2J\u001b]0;gotcha\u0007\u009b31m\u202e\nState     delivered';

describe('express-model-gateway deliveries and test', () => {
  let live: Commanded;
  let receiver: Awaited<ReturnType<typeof listen>>;
  let answer: { status: number; text: string; headers?: Record<string, string> };

  before(async () => {
    receiver = await listen((req, res) => {
      req.resume().on('end', () => res.writeHead(answer.status, answer.headers).end(answer.text));
    });
    live = await startCommanded({ retryDelays: [3_600_000] });
  });
  after(async () => {
    await live.close();
    await receiver.close();
  });
  beforeEach(() => {
    answer = { status: 200, text: '{"received":true}' };
  });

  async function newWebhook(events = ['credits.low']): Promise<string> {
    const body = { url: receiver.url, events, secret: 'a-long-enough-secret' };
    return (await live.call('POST', '/v1/webhooks', body)).body.id;
  }

  async function settled(webhook: string, has: (delivery: { attempts_made: number }) => boolean) {
    const list = async () => (await live.run('deliveries', 'list', '--webhook', webhook, '--json')).json.data;
    return eventually(list, (found) => found.length > 0 && found.every(has));
  }

  /** A delivery that its first attempt has been made of. */
  async function attempted(): Promise<{ id: string; webhook_id: string; event_id: string; created_at: string }> {
    const webhook = await newWebhook();
    await (live as LiveGateway).gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
    const [delivery] = await settled(webhook, ({ attempts_made: made }) => made === 1);
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: false });
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: true, events: ['credits.low'] });
    return delivery;
  }
  // each webhook gets every event, so the ones of tests before go
  afterEach(async () => {
    const { body } = await live.call('GET', '/v1/webhooks');
    for (const { id } of body.data) await live.call('DELETE', `/v1/webhooks/${id}`);
  });

  it('test shows that a sample event was delivered, and ends with 0', async () => {
    const webhook = await newWebhook();
    const { code, stdout, stderr } = await live.run('test', webhook, '--type', 'credits.low');
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(stdout)
      .to.match(/^Result +delivered: 200 in \d+m?s$/m)
      .and.match(/^Answer +\{"received":true\}$/m);
  });

  it('test shows why a sample event was not delivered, and ends with 1', async () => {
    answer = { status: 500, text: 'down for repair' };
    const webhook = await newWebhook();
    const { code, stdout, stderr } = await live.run('test', webhook, '--type', 'credits.low');
    expect({ code, stderr }).to.deep.equal({ code: 1, stderr: 'It was not delivered.\n' });
    expect(stdout)
      .to.match(/^Result +failed: http_500 in /m)
      .and.match(/^Why +\S.*2xx/m);
    expect(stdout).to.match(/^Answer +down for repair$/m);
  });

  it('test sends the first subscribed type when none is named', async () => {
    const { json, stderr } = await live.run('test', await newWebhook(), '--json');
    expect(json).to.include({ type: 'credits.low', test: true, state: 'delivered' });
    expect(stderr).to.equal('');
    const several = await live.run('test', await newWebhook(['payment.failed', 'credits.low']), '--json');
    const [first] = (await live.call('GET', `/v1/webhooks/${several.json.webhook_id}`)).body.events;
    expect(several.json.type).to.equal(first);
    expect(several.stderr).to.match(new RegExp(`^The event is of type ${first}; --type takes another: .*payment`));
  });

  it('test --data requires --type when the webhook has several types', async () => {
    const own = ['--data', JSON.stringify(data)];
    const { json } = await live.run('test', await newWebhook(), ...own, '--json');
    expect(json).to.include({ type: 'credits.low', state: 'delivered' });
    const webhook = await newWebhook(['credits.low', 'payment.failed']);
    const { code, stdout, stderr } = await live.run('test', webhook, ...own);
    expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
    expect(stderr)
      .to.match(/^--data needs --type.*credits\.low/)
      .and.include('payment.failed');
    expect(await live.run('test', webhook, '--type', 'credits.low', ...own)).to.include({ code: 0 });
  });

  it('test --json prints only the delivery, even if it failed', async () => {
    answer = { status: 500, text: '' };
    const { code, json } = await live.run('test', await newWebhook(), '--type', 'credits.low', '--json');
    expect(code).to.equal(1);
    expect(json).to.include({ test: true, state: 'failed', last_code: 'http_500' });
  });

  it('test says when the webhook is not subscribed to the type', async () => {
    const { code, stderr } = await live.run('test', await newWebhook(), '--type', 'payment.failed');
    expect(code).to.equal(1);
    expect(stderr).to.include('type:').and.include('credits.low');
  });

  it('list shows the deliveries that match the filters, in columns', async () => {
    answer = { status: 503, text: '' };
    const { id, webhook_id: webhook } = await attempted();
    const { stdout } = await live.run('deliveries', 'list', '--webhook', webhook);
    const [head, row] = stdout.split('\n');
    expect(head).to.match(/^ID +AGE +STATE +ATTEMPTS +LAST +NEXT +TYPE +WEBHOOK$/);
    expect(row).to.match(new RegExp(`^${id} +\\d+m?s +pending +1/2 +http_503 +in \\d+m +credits\\.low +${webhook}$`));
    const none = await live.run('deliveries', 'list', '--webhook', webhook, '--state', 'failed', '--since', '1h');
    expect(none.stdout).to.equal('No deliveries.\n');
    const past = await live.run('deliveries', 'list', '--webhook', webhook, '--until', '1h', '--json');
    expect(past.json).to.deep.equal({ data: [], has_more: false });
  });

  it('list says where nothing is attempted that has long been due', async () => {
    const { id } = await attempted();
    const { body } = await live.call('GET', `/v1/deliveries/${id}`);
    let late = 90_000;
    const idle = await listen((_req, res) => {
      const due = (ms: number) => ({
        ...body,
        state: 'pending',
        next_attempt_at: new Date(Date.now() - ms).toISOString(),
      });
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify({ data: [due(late), due(3_600_000)], has_more: false }));
    });
    const list = () => live.run('deliveries', 'list', '--base-url', idle.url);
    expect((await list()).stdout).to.include('gateway.start()');
    late = 5_000;
    expect((await list()).stdout).to.not.include('gateway.start()');
    await idle.close();
  });

  it('list refuses an unknown state and an invalid time', async () => {
    const state = await live.run('deliveries', 'list', '--state', 'faild');
    expect(state.code).to.equal(2);
    expect(state.stderr).to.include('failed');
    const time = await live.run('deliveries', 'list', '--since', 'yesterday');
    expect(time.code).to.equal(2);
    expect(time.stderr).to.include('2h');
  });

  it('show prints every attempt, why it failed, the next one, the body and the response', async () => {
    answer = { status: 500, text: 'down for repair' };
    const { id, event_id: event } = await attempted();
    const { stdout } = await live.run('deliveries', 'show', id);
    expect(stdout)
      .to.match(/^State +pending$/m)
      .and.match(new RegExp(`^Event +${event} +credits\\.low$`, 'm'));
    expect(stdout).to.match(/^1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+m?s +http_500$/m);
    expect(stdout).to.match(/^http_500 +The receiver answered/m);
    expect(stdout).to.match(/^2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +in 59m$/m);
    expect(stdout)
      .to.include('"credits_remaining": 50')
      .and.match(/^ +down for repair$/m);
    expect((await live.run('deliveries', 'show', id, '--json')).json.attempts).to.have.length(1);
  });

  it('show prints where a redirect led, and what Retry-After asked for', async () => {
    answer = { status: 307, text: '', headers: { location: 'https://new.example/hook', 'retry-after': '120' } };
    const { id } = await attempted();
    const { stdout } = await live.run('deliveries', 'show', id);
    expect(stdout)
      .to.match(/^ATTEMPT +STARTED +TOOK +RESULT +RETRY-AFTER$/m)
      .and.match(/^1 .+ redirect +120$/m)
      .and.match(/^Location +https:\/\/new\.example\/hook$/m);
    const again = await live.run('deliveries', 'resend', id);
    expect(again.stdout)
      .to.match(/^Location +https:\/\/new\.example\/hook$/m)
      .and.match(/^Retry-After +120$/m);
  });

  it('escapes control characters in received text, and lets it imitate no other field', async () => {
    answer = { status: 500, text: '' };
    const { id } = await attempted();
    const { body } = await live.call('GET', `/v1/deliveries/${id}`);
    // the gateway takes the worst out of answers before it keeps them; here one does not
    const said = { url: evil, last_code: evil, type: evil, body: evil };
    const attempts = [
      { ...body.attempts[0], code: evil, explanation: evil, response: evil, retry_after: evil, location: evil },
    ];
    const careless = await listen((req, res) => {
      const delivery = { ...body, ...said, attempts };
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify(req.url?.includes(id) ? delivery : { data: [delivery], has_more: false }));
    });
    for (const args of [['list'], ['list', '--json'], ['show', id], ['show', id, '--json'], ['resend', id]]) {
      const { stdout } = await live.run('deliveries', ...args, '--base-url', careless.url);
      expect(stdout, args.join(' ')).to.not.match(/(?!\n)\p{Cc}|\u202e/u);
      if (!args.includes('--json')) {
        expect(stdout).to.include('\\x1b[2J\\x1b]0;gotcha\\x07\\x9b31m');
        expect(stdout, args.join(' ')).to.not.match(/^State +delivered/m);
      }
    }
    await careless.close();
  });

  it('resend makes one more attempt and shows its result', async () => {
    answer = { status: 500, text: '' };
    const { id } = await attempted();
    const again = await live.run('deliveries', 'resend', id);
    expect(again).to.include({ code: 1, stderr: 'It was not delivered.\n' });
    answer = { status: 204, text: '' };
    const repaired = await live.run('deliveries', 'resend', id);
    expect(repaired).to.include({ code: 0, stderr: '' });
    expect(repaired.stdout).to.match(/^Result +delivered: 204 in /m);
    const { stdout } = await live.run('deliveries', 'show', id);
    expect(stdout)
      .to.match(/^State +delivered$/m)
      .and.match(/^resent +.* 204$/m);
  });

  it('resend of an unknown delivery says where to look', async () => {
    const { code, stderr } = await live.run('deliveries', 'resend', 'dlv_nothing');
    expect(code).to.equal(1);
    expect(stderr)
      .to.match(/^delivery_not_found: /)
      .and.include('deliveries list');
  });

  it('tail prints new deliveries and their changes until Ctrl-C, and exits with 0', async () => {
    const terminal = live.terminal();
    const ended = terminal.run('deliveries', 'tail', '--interval', '200ms');
    answer = { status: 500, text: '' };
    const { id } = await attempted();
    await until(() => terminal.stdout.includes(`${id}  pending    1/2`));
    answer = { status: 200, text: '' };
    await live.run('deliveries', 'resend', id);
    await until(() => terminal.stdout.includes(`${id}  delivered  1/2`));
    terminal.interrupt();
    expect(await ended).to.equal(0);
    expect(terminal.stderr).to.equal('');
  });

  it('tail waits while the gateway restarts, and says so once', async () => {
    let up = true;
    let asked = 0;
    const away = await listen((_req, res) => {
      asked += 1;
      res.writeHead(up ? 200 : 503, { 'content-type': 'application/json' });
      res.end(up ? '{"data":[],"has_more":false}' : '{"error":{"message":"It is ending","code":"shutting_down"}}');
    });
    const terminal = live.terminal();
    const ended = terminal.run('deliveries', 'tail', '--interval', '200ms', '--base-url', away.url);
    await until(() => asked > 0);
    up = false;
    await until(() => terminal.stderr.includes('Waiting'));
    const askedBefore = asked;
    await until(() => asked >= askedBefore + 2);
    up = true;
    await until(() => terminal.stderr.includes('again'));
    terminal.interrupt();
    expect(await ended).to.equal(0);
    expect(terminal.stderr).to.equal('shutting_down: It is ending Waiting for it …\nIt answers again.\n');
    await away.close();
    const gone = live.terminal();
    expect(await gone.run('deliveries', 'tail', '--base-url', away.url)).to.equal(1);
  });

  it('tail --since shows nothing made before', async () => {
    const before = await attempted();
    // lists go by the time in the ids, which may be some milliseconds after created_at
    const since = new Date().toISOString();
    const after = await attempted();
    const terminal = live.terminal();
    const ended = terminal.run('deliveries', 'tail', '--interval', '200ms', '--lines', '3', '--since', since);
    await until(() => terminal.stdout.includes(after.id));
    terminal.interrupt();
    expect(await ended).to.equal(0);
    expect(terminal.stdout).to.not.include(before.id);
  });

  it('tail --json prints one object per line', async () => {
    const { id } = await attempted();
    const terminal = live.terminal();
    const ended = terminal.run('deliveries', 'tail', '--interval', '200ms', '--lines', '3', '--json');
    await until(() => terminal.stdout.includes(id));
    terminal.interrupt();
    expect(await ended).to.equal(0);
    const lines = terminal.stdout.trimEnd().split('\n');
    expect(lines).to.have.length(3);
    expect(JSON.parse(lines.at(-1) ?? '')).to.include({ id, state: 'delivered' });
  });

  it('recover resends what a webhook missed, and shows its progress', async () => {
    const webhook = await newWebhook();
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: false });
    for (let i = 0; i < 3; i += 1) {
      await live.gateway.publish({ type: 'credits.low', userId: 'usr_1', data: { ...data, credits_remaining: i } });
    }
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: true });
    const terminal = live.terminal();
    expect(await terminal.run('deliveries', 'recover', webhook, '--since', '1h')).to.equal(0);
    expect(terminal.stdout).to.match(/^Result +3 found, 3 sent again, 3 delivered, 0 failed$/m);
    expect(terminal.redrawn.join('\n')).to.match(/found, .* …/);
    expect(terminal.redrawn.at(-1)).to.equal('');
  });

  it('recover exits with 1 when a delivery failed again, and --json prints only the recovery', async () => {
    const webhook = await newWebhook();
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: false });
    await live.gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
    await live.call('PATCH', `/v1/webhooks/${webhook}`, { active: true });
    answer = { status: 500, text: '' };
    const { code, json, stderr } = await live.run(
      'deliveries',
      'recover',
      webhook,
      '--since',
      '1h',
      '--state',
      'skipped',
      '--json',
    );
    expect(code).to.equal(1);
    expect(json).to.include({ webhook_id: webhook, state: 'done', found: 1, failed: 1 });
    expect(stderr).to.include('deliveries list');
  });

  it('webhooks stats and show print attempts, failures and health', async () => {
    answer = { status: 500, text: '' };
    const { webhook_id: webhook } = await attempted();
    const stats = async () => (await live.run('webhooks', 'stats', webhook)).stdout;
    // attempts are counted within a second or two, and the last failure is another write
    const stdout = await eventually(stats, (text) => !/^Attempts +0$/m.test(text) && /^Last failure/m.test(text));
    expect(stdout)
      .to.match(/^Attempts +1$/m)
      .and.match(/^Succeeded +0 \(0\.0 %\)$/m)
      .and.match(/^Last failure +.*http_500/m);
    expect(stdout).to.match(/^\d{4}-\d\d-\d\d +0 +1$/m);
    expect((await live.run('webhooks', 'stats', webhook, '--json')).json.hours).to.have.length(168);
    expect((await live.run('webhooks', 'show', webhook)).stdout)
      .to.match(/^Health +/m)
      .and.include('http_500');
  });

  it('events list and show print the state of an event and its deliveries', async () => {
    answer = { status: 500, text: '' };
    const { event_id: event } = await attempted();
    const { stdout } = await live.run('events', 'show', event);
    expect(stdout)
      .to.match(/^State +pending$/m)
      .and.match(/^Deliveries +1 pending$/m);
    expect((await live.run('events', 'list', '--state', 'pending', '--limit', '1')).stdout).to.include(event);
  });
});
