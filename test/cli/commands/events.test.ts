import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { verifySignature } from '../../../src/receiver/index.ts';
import { listen } from '../../support/listen.ts';
import { signBody, standardWebhookSignature } from '../../support/signature.ts';
import { until } from '../../support/until.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

const data = { user_id: 'usr_1', credits_remaining: 50, threshold: 100 };

describe('express-model-gateway events', () => {
  let live: Commanded;
  before(async () => {
    live = await startCommanded({
      eventTypes: { 'order.shipped': { schema: { type: 'object' }, example: { order_id: 'ord_1' } } },
    });
  });
  after(() => live.close());

  const publish = (...args: string[]) =>
    live.run('events', 'publish', '--user', 'usr_1', '--type', 'credits.low', ...args);

  it('publish prints the id of the event, and show prints the event', async () => {
    const published = await publish('--data', JSON.stringify(data));
    expect(published).to.include({ code: 0, stderr: '' });
    expect(published.stdout).to.match(/^evt_\S+\n$/);
    const shown = await live.run('events', 'show', published.stdout.trim());
    expect(shown.stdout)
      .to.match(/^Type +credits\.low$/m)
      .and.match(/"credits_remaining": 50/);
  });

  it('publish --json prints what the API answers, and publishes once per idempotency key', async () => {
    const first = await publish('--data', JSON.stringify(data), '--idempotency-key', 'k1', '--json');
    expect(first.json).to.include({ type: 'credits.low', user_id: 'usr_1', idempotency_key: 'k1' });
    const again = await publish('--data', JSON.stringify(data), '--idempotency-key', 'k1', '--json');
    expect(again.json).to.deep.equal(first.json);
    const other = await publish('--data', JSON.stringify({ ...data, threshold: 1 }), '--idempotency-key', 'k1');
    expect(other.code).to.equal(1);
    expect(other.stderr).to.match(/^idempotency_conflict: /);
  });

  it('publish reads the data from a file or from stdin', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'data-'));
    const file = join(folder, 'event.json');
    await writeFile(file, JSON.stringify(data));
    expect(await publish('--data', `@${file}`)).to.include({ code: 0 });
    await rm(folder, { recursive: true });
    const gone = await publish('--data', `@${file}`);
    expect(gone.code).to.equal(2);
    expect(gone.stderr).to.include(file);
    const piped = ['events', 'publish', '--user', 'usr_1', '--type', 'credits.low', '--data', '-'];
    expect(await live.runWith({ input: JSON.stringify(data) }, ...piped)).to.include({ code: 0 });
  });

  it('publish tells invalid JSON from data that does not fit the type', async () => {
    for (const [text, says] of [
      ['{data}', 'is not JSON'],
      ['[1]', 'must be a JSON object'],
    ] as const) {
      const wrong = await publish('--data', text);
      expect(wrong.code, text).to.equal(2);
      expect(wrong.stderr).to.include(says);
    }
    const misfit = await publish('--data', JSON.stringify({ ...data, threshold: 'a hundred' }));
    expect(misfit.code).to.equal(1);
    expect(misfit.stderr).to.include('data.threshold');
  });

  it('publish and test refuse a number that JSON would change, and a key that is there twice', async () => {
    for (const [text, says] of [
      ['{"order":{"id":1524831183200260097}}', 'order.id: has more digits than JSON numbers keep'],
      ['{"id":1,"id":2}', 'id: appears twice'],
    ] as const) {
      const piped = ['--type', 'credits.low', '--data', '-'];
      for (const run of [
        await publish('--data', text),
        await live.runWith({ input: text }, 'events', 'publish', '--user', 'usr_1', ...piped),
        await live.runWith({ input: text }, 'test', 'wh_1', ...piped),
      ]) {
        expect(run).to.include({ code: 2, stdout: '' });
        expect(run.stderr).to.include(`--data: ${says}`);
      }
    }
  });

  it('publish of an unknown type lists the known types, custom ones included', async () => {
    const unknown = await live.run('events', 'publish', '--user', 'usr_1', '--type', 'credit.low', '--data', '{}');
    expect(unknown.code).to.equal(1);
    expect(unknown.stderr)
      .to.match(/^unknown_event_type: /)
      .and.include('credits.low')
      .and.include('order.shipped');
  });

  it('types lists every type, and shows one with an example and its schema', async () => {
    const { stdout } = await live.run('events', 'types');
    expect(stdout)
      .to.match(/^credits\.low +The credit balance/m)
      .and.match(/^order\.shipped/m);
    const one = await live.run('events', 'types', 'order.shipped');
    expect(one.stdout)
      .to.include('"order_id": "ord_1"')
      .and.match(/^Schema +\{$/m);
    expect((await live.run('events', 'types', 'order.shipped', '--json')).json.example).to.deep.equal({
      order_id: 'ord_1',
    });
    const none = await live.run('events', 'types', 'order.lost');
    expect(none).to.include({ code: 1, stdout: '' });
    expect(none.stderr).to.include('order.shipped');
  });

  it('list shows the newest first and says how to read the next page', async () => {
    const { json } = await publish('--data', JSON.stringify(data), '--json');
    const first = await live.run('events', 'list', '--limit', '1');
    const rows = first.stdout.trimEnd().split('\n');
    expect(rows).to.have.length(2);
    expect(rows[1]).to.match(new RegExp(`^${json.id} .*credits\\.low`));
    expect(first.stderr).to.include(`--after ${json.id}`);
    const rest = await live.run('events', 'list', '--after', json.id, '--json');
    expect(rest.json.data.map(({ id }: { id: string }) => id)).to.not.include(json.id);
  });

  it('list --limit reads as many pages as needed', async () => {
    for (let i = 0; i < 105; i += 1) {
      await live.gateway.publish({ type: 'order.shipped', userId: 'usr_1', data: { order_id: `ord_${i}` } });
    }
    const { json, stderr } = await live.run('events', 'list', '--type', 'order.shipped', '--limit', '104', '--json');
    expect(json.data).to.have.length(104);
    expect(new Set(json.data.map(({ id }: { id: string }) => id)).size).to.equal(104);
    expect(json.has_more).to.equal(true);
    expect(stderr).to.include('There are more');
    const all = await live.run('events', 'list', '--type', 'order.shipped', '--limit', '500', '--json');
    expect(all.json).to.include({ has_more: false }).and.to.have.property('data').with.length(105);
    expect(all.stderr).to.equal('');
  });

  it('listen refuses a secret that no webhook has, before it listens', async () => {
    for (const [secret, says] of [
      ['"a-long-enough-secret"', '--secret: it is in quotes, which are not part of it: remove them'],
      ['a-long-enough-secret ', '--secret: it has white space at its beginning or end: remove it'],
      ['', '--secret: it is empty: is a variable unset?'],
    ] as const) {
      for (const where of [
        ['--port', '0'],
        ['--forward-to', 'http://127.0.0.1:9/hook'],
      ]) {
        const wrong = await live.run('listen', ...where, '--secret', secret);
        expect(wrong).to.include({ code: 2, stdout: '' });
        expect(wrong.stderr.trim()).to.equal(says);
      }
    }
  });

  it('listen --forward-to forwards new events, signed like deliveries, and prints each result', async () => {
    const received: { headers: IncomingHttpHeaders; body: string }[] = [];
    const hook = await listen(async (req, res) => {
      received.push({ headers: req.headers, body: await text(req) });
      res.writeHead(received.length === 1 ? 200 : 500).end();
    });
    const terminal = live.terminal();
    const ended = terminal.run('listen', '--forward-to', `${hook.url}/hook`, '--type', 'credits.low');
    await until(() => terminal.stderr.includes(`Forwarding new events to ${hook.url}/hook`));
    const [secret = ''] = /whsec_\S+/.exec(terminal.stderr) ?? [];
    const other = ['--user', 'usr_1', '--type', 'order.shipped', '--data', '{}'];
    expect(await live.run('events', 'publish', ...other)).to.include({ code: 0 });
    const id = (await publish('--data', JSON.stringify(data))).stdout.trim();
    await until(() => terminal.stdout.includes(`credits.low  ${id}  200  `));
    const [{ headers, body } = { headers: {}, body: '' }] = received;
    expect(verifySignature(body, headers, secret)).to.equal(true);
    expect(headers).to.include({ 'webhook-id': id, 'x-service-signature': signBody(body, secret) });
    expect(headers['webhook-signature']).to.equal(
      standardWebhookSignature(id, String(headers['webhook-timestamp']), body, secret),
    );
    const stored = (await live.call('GET', `/v1/events/${id}`)).body;
    expect(JSON.parse(body)).to.deep.equal({ id, type: 'credits.low', created: stored.created, data });

    const failed = (await publish('--data', JSON.stringify(data))).stdout.trim();
    await until(() => terminal.stdout.includes(`credits.low  ${failed}  500  `));
    await hook.close();
    const lost = (await publish('--data', JSON.stringify(data))).stdout.trim();
    await until(() => terminal.stdout.includes(`credits.low  ${lost}  failed: ECONNREFUSED  `));
    terminal.interrupt();
    expect(await ended).to.equal(0);
    expect(terminal.stdout).to.not.include('order.shipped');
    expect(terminal.stdout.trim().split('\n')).to.have.length(3);
  });

  it('listen names the options it needs', async () => {
    const nothing = await live.run('listen');
    expect(nothing.code).to.equal(2);
    expect(nothing.stderr).to.include('Give --port and --secret');
    const file = await live.run('listen', '--forward-to', 'file:///etc/passwd');
    expect(file.code).to.equal(2);
    expect(file.stderr).to.include('--forward-to must be an http or https URL');
  });
});
