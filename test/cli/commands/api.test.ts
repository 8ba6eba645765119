import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect } from 'chai';
import { listen } from '../../support/listen.ts';
import { until } from '../../support/until.ts';
import { command } from '../recorded-terminal.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

const webhook = { url: 'https://example.com/hook', events: ['credits.low'] };

describe('express-model-gateway api', () => {
  let live: Commanded;
  let folder: string;
  before(async () => {
    live = await startCommanded();
    folder = await mkdtemp(join(tmpdir(), 'api-'));
  });
  after(async () => {
    await live.close();
    await rm(folder, { recursive: true });
  });

  it('prints what the API answers', async () => {
    const { code, stderr, json } = await live.run('api', 'get', '/v1/event_types');
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(json).to.deep.equal((await live.call('GET', '/v1/event_types')).body);
  });

  it('sends fields as a JSON body, and as the query of a GET', async () => {
    const fields = ['-f', `url=${webhook.url}`, '-F', 'events=["credits.low"]', '-f', 'description= of accounting '];
    const { json: made } = await live.run('api', 'POST', '/v1/webhooks', ...fields);
    expect(made).to.include({ url: webhook.url, description: ' of accounting ' });
    await live.run('api', 'PATCH', `/v1/webhooks/${made.id}`, '-F', 'active=false');
    const { json: changed } = await live.run('api', 'GET', `/v1/webhooks/${made.id}`);
    expect(changed).to.include({ id: made.id, active: false });
    const { json: page } = await live.run('api', 'GET', '/v1/webhooks', '-F', 'limit=1');
    expect(page.data).to.have.length(1);
    expect((await live.run('api', 'DELETE', `/v1/webhooks/${made.id}`)).json).to.include({ deleted: true });
  });

  it('sends a body from stdin or a file, and headers', async () => {
    const fromInput = await live.runWith(
      { input: JSON.stringify(webhook) },
      'api',
      'POST',
      '/v1/webhooks',
      '--input',
      '-',
    );
    expect(fromInput.json).to.include({ url: webhook.url });
    const path = join(folder, 'event.json');
    const data = { user_id: 'usr_1', credits_remaining: 50, threshold: 100 };
    await writeFile(path, JSON.stringify({ user_id: 'usr_1', type: 'credits.low', data }));
    const publish = () => live.run('api', 'POST', '/v1/events', '--input', path, '--header', 'Idempotency-Key: k1');
    const { json: event } = await publish();
    expect((await publish()).json.id).to.equal(event.id);
  });

  it('puts the pages of a list together', async () => {
    for (let i = 0; i < 3; i += 1) await live.gateway.webhooks.create('usr_1', webhook as never);
    const one = await live.run('api', 'GET', '/v1/webhooks', '-F', 'limit=1');
    expect(one.json.has_more).to.equal(true);
    const all = await live.run('api', 'GET', '/v1/webhooks?limit=1', '--paginate');
    expect(all.json.has_more).to.equal(false);
    const ids = (body: { data: { id: string }[] }) => body.data.map(({ id }) => id);
    expect(ids(all.json)).to.deep.equal(ids((await live.call('GET', '/v1/webhooks')).body as never));
    const path = join(folder, 'webhooks.json');
    const saved = await live.run('api', 'GET', '/v1/webhooks?limit=1', '--paginate', '--output', path);
    expect(saved.stderr).to.equal('');
    expect(JSON.parse(await readFile(path, 'utf8'))).to.deep.equal(all.json);
    const noList = await live.run('api', 'GET', '/v1/credits', '--paginate');
    expect(noList.code).to.not.equal(0);
  });

  for (const [said, page] of [
    ['names no row', { data: [{ day: '2026-01-01' }], has_more: true }],
    ['names the same row again', { data: [], has_more: true, next_after: 'x' }],
  ] as const) {
    it(`ends with an error where a list goes on and ${said}`, async () => {
      const server = await listen((_req, res) => {
        res.setHeader('content-type', 'application/json').end(JSON.stringify(page));
      });
      const { code, stdout, stderr } = await live.run('api', 'GET', '/list', '--paginate', '--base-url', server.url);
      await server.close();
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      expect(stderr).to.equal('The list says that there is more, but not how to read on.\n');
    });
  }

  it('sends the bytes of a file or of stdin as they are, with headers of its own', async () => {
    const sent: { accept: string | undefined; body: Buffer }[] = [];
    const server = await listen(async (req, res) => {
      sent.push({ accept: req.headers.accept, body: await buffer(req) });
      res.setHeader('content-type', 'audio/mpeg').end(sent.at(-1)?.body);
    });
    const input = Buffer.from([0xff, 0xfb, 0x00, 0x80]);
    const path = join(folder, 'audio.mp3');
    await writeFile(path, input);
    for (const [from, output] of [
      [path, join(folder, 'file.mp3')],
      ['-', join(folder, 'stdin.mp3')],
    ] as const) {
      const args = ['--input', from, '-H', 'Content-Type: audio/mpeg', '-H', 'Accept: audio/*', '--output', output];
      const done = await live.runWith({ input }, 'api', 'POST', '/audio', ...args, '--base-url', server.url);
      expect(done).to.include({ code: 0, stderr: '' });
      expect(await readFile(output)).to.deep.equal(input);
    }
    await server.close();
    expect(sent).to.deep.equal([
      { accept: 'audio/*', body: input },
      { accept: 'audio/*', body: input },
    ]);
  });

  it('asks for nothing where the file is there, and leaves none where the answer is cut off', async () => {
    let asked = 0;
    let cutOff: () => void = () => {};
    const server = await listen((req, res) => {
      asked += 1;
      if (req.url === '/nothing') return void res.writeHead(204).end();
      res.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': '100' });
      cutOff = () => res.destroy();
      res.write('data: 1\n', () => req.url === '/cut' && cutOff());
    });
    const path = join(folder, 'kept');
    const save = (what: string) => live.run('api', 'GET', what, '--output', path, '--base-url', server.url);
    const cut = 'The answer was cut off.\nTry again.\n';
    expect(await save('/cut')).to.include({ code: 1, stderr: cut });
    expect(existsSync(path)).to.equal(false);
    const terminal = live.terminal();
    const printed = terminal.run('api', 'GET', '/held', '--base-url', server.url);
    await until(() => terminal.stdout === 'data: 1\n');
    cutOff();
    expect(await printed).to.equal(1);
    expect(terminal.stderr).to.equal(cut);
    expect(await save('/nothing')).to.include({ code: 0, stdout: `${path}: 0 bytes\n` });
    asked = 0;
    expect((await save('/nothing')).stderr).to.include('EEXIST');
    expect(asked).to.equal(0);
    await server.close();
  });

  it('prints text as it comes with its controls escaped, and writes anything else to a file', async () => {
    const server = await listen((req, res) => {
      res.setHeader('content-type', req.url === '/text' ? 'text/event-stream' : 'application/octet-stream');
      res.end('data: 1\n\u001b[2J\n');
    });
    const at = ['--base-url', server.url];
    const text = await live.run('api', 'GET', '/text', ...at);
    expect(text.stdout).to.equal('data: 1\n\\x1b[2J\n');
    const refused = await live.run('api', 'GET', '/bytes', ...at);
    expect(refused).to.include({ code: 2, stdout: '' });
    expect(refused.stderr).to.include('--output');
    const path = join(folder, 'bytes');
    expect((await live.run('api', 'GET', '/bytes', '--output', path, ...at)).code).to.equal(0);
    expect(await readFile(path, 'utf8')).to.equal('data: 1\n\u001b[2J\n');
    await server.close();
  });

  it('says what the gateway refuses, with exit code 1', async () => {
    const { code, stdout, stderr } = await live.run('api', 'GET', '/v1/webhooks/wh_nobody');
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.match(/^webhook_not_found: /);
  });

  for (const [said, args, advice] of [
    ['another method', ['FETCH', '/v1/models'], 'PATCH'],
    ['an address', ['GET', 'https://example.com/v1/models'], '--base-url'],
    ['a field without a value', ['POST', '/v1/webhooks', '-f', 'url'], 'model=gpt-5-mini'],
    ['a typed field that is no JSON', ['POST', '/v1/webhooks', '-F', 'url=x'], '-f url='],
    ['a number that JSON would change', ['POST', '/v1/webhooks', '-F', 'n=9007199254740993'], '--field n'],
    ['pages of what is no GET', ['POST', '/v1/webhooks', '--paginate'], '--paginate'],
    ['a path out of the base URL', ['GET', '/../other'], '..'],
    ['the same in other letters', ['GET', '/v1/.%2E\\other'], '..'],
    ['a fragment', ['GET', '/v1/models#x'], '#'],
    ['a body of a GET', ['GET', '/v1/models', '--input', '-'], '--input'],
    ['a header that HTTP does not have', ['GET', '/v1/models', '-H', 'bad name: x'], '--header'],
    ['a file that is not there', ['POST', '/v1/webhooks', '--input', '/no/such/file'], '--input'],
  ] as const) {
    it(`refuses ${said} with exit code 2, and names what is right`, async () => {
      const { code, stdout, stderr } = await command(['api', ...args], { env: live.env });
      expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
      expect(stderr).to.include(advice);
    });
  }
});
