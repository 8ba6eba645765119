import { expect } from 'chai';
import { type Commanded, startCommanded } from './gateway-commands.ts';

const url = 'http://127.0.0.1:9000/hooks';
const secret = 'a-long-enough-secret';

describe('express-model-gateway webhooks', () => {
  let live: Commanded;
  before(async () => {
    live = await startCommanded();
  });
  after(() => live.close());

  const create = async (...args: string[]) =>
    (await live.run('webhooks', 'create', url, '--event', 'credits.low', '--secret', secret, '--json', ...args)).json;

  it('create registers a URL and shows it without its secret', async () => {
    const made = await live.run('webhooks', 'create', url, '--event', 'credits.low,payment.failed', '--secret', secret);
    expect(made).to.include({ code: 0, stderr: '' });
    expect(made.stdout)
      .to.match(/^Webhook {2}wh_\S+$/m)
      .and.match(/^State {4}active$/m);
    expect(made.stdout).to.match(/^Events {3}credits\.low\n {9}payment\.failed$/m);
    expect(made.stdout).to.not.include(secret);
  });

  it('create makes a secret where none is given, and shows it once', async () => {
    const made = await live.run('webhooks', 'create', url, '--event', 'credits.low');
    expect(made.stdout).to.match(/^Secret +whsec_[A-Za-z0-9+/]{43}=$/m);
    expect(made.stderr).to.include('shown this once');
  });

  it('create reads the secret from stdin, so that no shell history keeps it', async () => {
    const made = await live.runWith(
      { input: `${secret}\n` },
      'webhooks',
      'create',
      url,
      '--event',
      'credits.low',
      '--secret',
      '-',
    );
    expect(made).to.include({ code: 0, stderr: '' });
    const short = await live.runWith(
      { input: 'short\n' },
      'webhooks',
      'create',
      url,
      '--event',
      'credits.low',
      '--secret',
      '-',
    );
    expect(short.stderr).to.match(/^invalid_value: secret: /);
  });

  it('create --json prints a generated secret, but not a given one', async () => {
    const made = await live.run('webhooks', 'create', url, '--event', 'credits.low', '--json');
    expect(made.code).to.equal(0);
    expect(made.json.secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await create()).not.to.have.property('secret');
  });

  it('create names the existing event types when one is unknown', async () => {
    const refused = await live.run('webhooks', 'create', url, '--event', 'credit.low', '--secret', secret);
    expect(refused).to.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.include('events[0]').and.include('credits.low').and.include('rate_limit.exceeded');
  });

  it('list shows every webhook in columns', async () => {
    const { id } = await create();
    const { stdout } = await live.run('webhooks', 'list');
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(head).to.match(/^ID +STATE +URL +EVENTS$/);
    const row = rows.at(-1) ?? '';
    expect(row).to.match(new RegExp(`^${id} +active +${url} +credits\\.low$`));
    expect(row.indexOf(url)).to.equal(head?.indexOf('URL'));
  });

  it('list --json prints what the API answers and nothing else', async () => {
    const { json } = await live.run('webhooks', 'list', '--json');
    const { body } = await live.call('GET', '/v1/webhooks');
    expect(json).to.deep.equal(body);
  });

  it('show, update, pause and resume print the new state', async () => {
    const { id } = await create();
    expect((await live.run('webhooks', 'update', id, '--event', 'payment.failed')).stdout).to.match(
      /^Events +payment.failed$/m,
    );
    expect((await live.run('webhooks', 'pause', id)).stdout).to.match(/^State +paused$/m);
    expect((await live.run('webhooks', 'show', id)).stdout).to.match(/^State +paused$/m);
    expect((await live.run('webhooks', 'resume', id, '--json')).json).to.include({ id, active: true });
  });

  it('create and update take a description, metadata and filters, and update removes them', async () => {
    const options = ['--description', 'Tells accounting', '--metadata', 'team=a=b', '--metadata', 'tier=1'];
    const filters = ['--filter', 'data.currency=usd, eur', '--filter', 'data.amount=20,"20",true'];
    const made = await create(...options, ...filters, '--filter', 'data.note=["a,b"]');
    expect(made).to.deep.include({
      description: 'Tells accounting',
      metadata: { team: 'a=b', tier: '1' },
      filters: { 'data.currency': ['usd', 'eur'], 'data.amount': [20, '20', true], 'data.note': ['a,b'] },
    });
    const { stdout } = await live.run('webhooks', 'show', made.id);
    expect(stdout)
      .to.match(/^Description +Tells accounting$/m)
      .and.match(/^Filters +data\.currency: usd, eur$/m)
      .and.match(/^ +data\.amount: 20, "20", true$/m)
      .and.match(/^Metadata +team: a=b$/m);
    const changed = await live.run('webhooks', 'update', made.id, '--clear', 'filters,metadata', '--json');
    expect(changed.json).to.include({ id: made.id, description: 'Tells accounting' });
    expect(changed.json).to.not.have.any.keys('filters', 'metadata');
  });

  it('create and update take a rate limit and headers, and show the names of headers only', async () => {
    const made = await create('--rate-limit', '20', '--header', 'X-Api-Key: a-secret: value', '--header', 'x-b: 2');
    expect(made).to.deep.include({ rate_limit: 20, header_names: ['x-api-key', 'x-b'] });
    const { stdout } = await live.run('webhooks', 'show', made.id);
    expect(stdout).to.match(/^Rate limit +20 requests a second$/m);
    expect(stdout)
      .to.match(/^Headers +x-api-key, x-b$/m)
      .and.not.include('a-secret');
    const changed = await live.run('webhooks', 'update', made.id, '--clear', 'rate-limit,headers', '--json');
    expect(changed.json).to.not.have.any.keys('rate_limit', 'header_names');
    const refused = await live.run('webhooks', 'update', made.id, '--header', 'host: example.com');
    expect(refused.stderr).to.match(/^invalid_value: headers.host: is reserved for the gateway/);
  });

  it('create and update explain how to write an option', async () => {
    const unfiltered = await live.run('webhooks', 'create', url, '--event', 'credits.low', '--filter', 'data.model');
    expect(unfiltered.stderr).to.include('data.currency=usd,eur');
    const unknown = await live.run('webhooks', 'update', 'wh_1', '--clear', 'url');
    expect(unknown.stderr).to.include('description, metadata, filters, rate-limit, headers');
    const outside = await live.run('webhooks', 'create', url, '--event', 'credits.low', '--filter', 'model=x');
    expect(outside.stderr).to.match(/^invalid_value: filters: 'model' must be a path into the data/);
  });

  it('create and update refuse a filter with a number that JSON would change, and take it in quotes', async () => {
    const id = '1524831183200260097';
    const made = await create('--filter', `data.id="${id}",7`);
    expect(made.filters).to.deep.equal({ 'data.id': [id, 7] });
    for (const values of [id, `[1,${id}]`]) {
      const refused = await live.run('webhooks', 'update', made.id, '--filter', `data.id=${values}`);
      expect(refused).to.include({ code: 2, stdout: '' });
      expect(refused.stderr).to.include('has more digits than JSON numbers keep');
    }
    const deep = await live.run(
      'webhooks',
      'update',
      made.id,
      '--filter',
      `data.id=${'{"a":'.repeat(101)}1${'}'.repeat(101)}`,
    );
    expect(deep.stderr).to.include('nests deeper than 100 levels').and.not.include('more digits');
  });

  it('rotate-secret says until when both secrets are valid', async () => {
    const { id } = await create();
    const rotated = await live.run(
      'webhooks',
      'rotate-secret',
      id,
      '--overlap',
      '2d',
      '--service-signature',
      'previous',
    );
    expect(rotated.stdout).to.match(
      /^Secrets +both are good until .+ \(in 47h\); x-service-signature is made with the previous one$/m,
    );
    expect(rotated.stdout).to.match(/^Secret +whsec_/m);
    const refused = await live.run('webhooks', 'rotate-secret', id, '--overlap', '8d');
    expect(refused.stderr).to.include('overlap_seconds');
  });

  it('delete asks first, and deletes only when the answer is y', async () => {
    const { id } = await create();
    const no = await live.runWith({ answer: '' }, 'webhooks', 'delete', id);
    expect(no).to.include({ code: 1, stdout: '', stderr: 'Nothing was deleted.\n' });
    const yes = await live.runWith({ answer: 'y' }, 'webhooks', 'delete', id);
    expect(yes).to.include({ code: 0, stdout: `Deleted ${id}\n` });
  });

  it('delete requires --yes when nobody can be asked', async () => {
    const { id } = await create();
    const refused = await live.run('webhooks', 'delete', id);
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.include('--yes');
    expect((await live.run('webhooks', 'delete', id, '--yes', '--json')).json).to.deep.equal({ id, deleted: true });
  });

  it('says where to find the existing webhooks when one is unknown', async () => {
    const missing = await live.run('webhooks', 'show', 'wh_nobody');
    expect(missing).to.include({ code: 1, stdout: '' });
    expect(missing.stderr)
      .to.match(/^webhook_not_found: /)
      .and.include('webhooks list');
  });
});
