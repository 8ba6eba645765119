import type { RequestListener } from 'node:http';
import { expect } from 'chai';
import { listen } from '../../support/listen.ts';
import { command } from '../recorded-terminal.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

describe('a command that is refused', () => {
  let live: Commanded;
  before(async () => {
    live = await startCommanded({ limits: { writesPerMinute: 2 } });
  });
  after(() => live.close());

  const env = { EXPRESS_MODEL_GATEWAY_API_KEY: 'emg_x' };

  /** What `webhooks list` says of a server that answers so. */
  async function beside(listener: RequestListener) {
    const server = await listen(listener);
    const { code, stdout, stderr } = await command(['webhooks', 'list', '--base-url', server.url], { env });
    await server.close();
    return { code, stdout, stderr, url: server.url };
  }

  it('is never so because its base URL ends in /v1 or a slash, or does not', async () => {
    for (const end of ['', '/', '/v1', '/v1/', '//v1//']) {
      const { code, stdout } = await live.run('webhooks', 'list', '--base-url', `${live.url}${end}`);
      expect(code, `${end} ${stdout}`).to.equal(0);
    }
  });

  it('for lack of a key says how to give one', async () => {
    const { code, stdout, stderr } = await command(['webhooks', 'list', '--base-url', live.url]);
    expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
    expect(stderr)
      .to.include('EXPRESS_MODEL_GATEWAY_API_KEY')
      .and.include('--api-key')
      .and.include('keys create --database --user');
  });

  it('for a name that every object has, and no list of names, says which there are', async () => {
    for (const words of ['usage --by toString', 'keys create --scope toString']) {
      const { code, stderr } = await command(words.split(' '), { env });
      expect({ words, code }).to.deep.equal({ words, code: 2 });
      expect(stderr).to.include('It must be some of ');
    }
  });

  it('for a value names the option that it is given as', async () => {
    const { code, stderr } = await live.run('usage', '--from', 'January');
    expect(code).to.equal(1);
    expect(stderr).to.match(/^invalid_value: from.*\nIt is given as --from\.$/m);
  });

  it('with a wrong key says that the key is invalid, and does not repeat it', async () => {
    const key = `emg_${'x'.repeat(60)}`;
    const { code, stderr } = await live.run('webhooks', 'list', '--api-key', key);
    expect(code).to.equal(1);
    expect(stderr)
      .to.match(/^invalid_api_key: /)
      .and.include('--api-key')
      .and.not.include(key);
  });

  it('with a key that lacks a scope names the scope', async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_1', scopes: ['models'] });
    const { code, stderr } = await live.run('webhooks', 'list', '--api-key', key);
    expect(code).to.equal(1);
    expect(stderr).to.include('insufficient_scope').and.include('scope webhooks').and.include('keys create');
  });

  it('by a rate limit says when to try again', async () => {
    const change = () => live.run('webhooks', 'pause', 'wh_nobody');
    await change();
    await change();
    const { code, stderr } = await change();
    expect(code).to.equal(1);
    expect(stderr)
      .to.match(/^rate_limit_exceeded: /)
      .and.match(/Try again in (\d+s|1m)\./);
  });

  it('because nothing answers names the URL and how to set it', async () => {
    const gone = await listen(() => {});
    await gone.close();
    const { code, stderr } = await live.run('webhooks', 'list', '--base-url', `${gone.url}/v1`);
    expect(code).to.equal(1);
    expect(stderr).to.include(`Nothing answers at ${gone.url}.`).and.include('EXPRESS_MODEL_GATEWAY_BASE_URL');
    const nowhere = await live.run('webhooks', 'list', '--base-url', 'http://nowhere.invalid');
    expect(nowhere.stderr).to.include('There is no host nowhere.invalid');
  });

  it('by a server that is no gateway says so', async () => {
    const page = await beside((_req, res) => res.setHeader('content-type', 'text/html').end('<p>Hello</p>'));
    expect(page.code).to.equal(1);
    expect(page.stderr).to.include(`${page.url} answers 200, but not as this gateway does`).and.include('--base-url');
    const missing = await beside((_req, res) => res.writeHead(404).end('\u001b[2J'));
    expect(missing.stderr).to.include('answers 404');
  });

  it('by a redirect does not send its key there', async () => {
    const keys: unknown[] = [];
    const other = await listen((req, res) => {
      keys.push(req.headers.authorization);
      res.end();
    });
    const moved = await beside((_req, res) => res.writeHead(307, { location: `${other.url}/v1/webhooks` }).end());
    await other.close();
    expect(moved.stderr).to.include(`redirect to ${other.url}/v1/webhooks`);
    expect(keys).to.deep.equal([]);
  });

  it('by a truncated response asks to try again', async () => {
    const broken = await beside((_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 }).write('{"data":[');
      setImmediate(() => res.destroy());
    });
    expect(broken).to.include({ code: 1, stdout: '' });
    expect(broken.stderr).to.include('Try again');
  });

  it('by a failing gateway names the request id', async () => {
    const failed = await beside((_req, res) => {
      res.writeHead(500, { 'content-type': 'application/json', 'x-request-id': 'req_7' });
      res.end('{"error":{"message":"The gateway failed","type":"server_error","param":null,"code":"internal_error"}}');
    });
    expect(failed.stderr).to.include('internal_error: The gateway failed').and.include('req_7');
  });

  it('by an error with escape sequences prints them escaped', async () => {
    const evil = await beside((_req, res) => {
      res.writeHead(400, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ error: { message: '\u001b]0;gotcha\u0007\u009b2J', code: 'invalid_value' } }));
    });
    expect(evil.stderr)
      .to.include('\\x1b]0;gotcha\\x07\\x9b2J')
      .and.not.match(/(?!\n)\p{Cc}/u);
  });

  for (const [said, args, advice] of [
    ['an unknown command', ['webhoks'], 'webhooks'],
    ['an unknown subcommand', ['webhooks', 'lst'], 'list'],
    ['an unknown option', ['webhooks', 'list', '--jsn'], '--json'],
    ['a missing argument', ['webhooks', 'show'], 'webhook'],
    ['an invalid base URL', ['webhooks', 'list', '--base-url', 'localhost:3000', '--api-key', 'x'], 'http'],
    ['an invalid number', ['events', 'list', '--limit', 'many'], 'whole number'],
  ] as const) {
    it(`for ${said} exits with 2 and names the right spelling`, async () => {
      const { code, stdout, stderr } = await command(args);
      expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
      expect(stderr).to.include(advice);
    });
  }
});
