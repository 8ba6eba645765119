import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';
import type { Environment } from '../../../src/cli/config/environment.ts';

const openai = { name: 'openai', baseUrl: 'https://api.openai.com/v1', models: ['gpt-*'] };
const azure = { name: 'azure', baseUrl: 'https://x.openai.azure.com/openai/v1', priority: 1 };

describe('UPSTREAMS_FILE', () => {
  let folder: string;
  let file: string;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'emg-upstreams-'));
    file = path.join(folder, 'upstreams.json');
  });
  after(() => rmSync(folder, { recursive: true }));

  function read(content: unknown, env: Record<string, string> = {}) {
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    return readConfiguration({ UPSTREAMS_FILE: file, ...env });
  }

  function refusal(content: unknown, env: Record<string, string> = {}): string {
    try {
      read(content, env);
    } catch (error) {
      expect(error).to.include({ code: 'invalid_options' });
      return (error as Error).message.replaceAll(file, 'FILE');
    }
    throw new Error('nothing was refused');
  }

  it('gives each upstream its own proxy, that of a variable, none, or that of the environment', () => {
    const env = { HTTPS_PROXY: 'http://all.example:3128', OWN_PROXY: 'http://us:er@own.example:3128' };
    const named = (name: string, more: object) => ({ ...openai, ...more, name });
    const list = [
      named('own', { proxy: { env: 'OWN_PROXY' } }),
      named('written', { proxy: 'http://b.example' }),
      named('none', { proxy: false }),
      openai,
    ];
    expect(read(list, env).upstreams?.map(({ proxy }) => proxy)).to.deep.equal([
      ...[env.OWN_PROXY, 'http://b.example', false, env.HTTPS_PROXY],
    ]);
    const refused = refusal([named('own', { proxy: 'socks5://us:canary@b.example' })]);
    expect(refused).to.include('FILE[0].proxy must be an http or https URL').and.not.include('canary');
  });

  it('lists upstreams, with keys and headers of the file or of variables', () => {
    const { upstreams, warnings } = read(
      [
        { ...openai, apiKey: { env: 'OPENAI_API_KEY' } },
        { ...azure, headers: { 'api-key': { env: 'AZURE_KEY' }, 'x-team': 'a' } },
      ],
      { OPENAI_API_KEY: 'sk-1', AZURE_KEY: 'az-1' },
    );
    expect(upstreams).to.deep.equal([
      { ...openai, apiKey: 'sk-1' },
      { ...azure, headers: { 'api-key': 'az-1', 'x-team': 'a' } },
    ]);
    expect(warnings).to.deep.equal([]);
  });

  it('warns of an upstream without a path', () => {
    expect(read([{ ...openai, baseUrl: 'https://api.openai.com' }]).warnings).to.deep.equal([
      "https://api.openai.com of the upstream 'openai' has no path; the APIs of most providers are under /v1",
    ]);
  });

  const wrong: [content: unknown, message: string | RegExp][] = [
    ['[{"name": "canary', 'FILE is not JSON'],
    [openai, 'FILE must be a list of upstreams'],
    [[], 'FILE must have an upstream'],
    [['openai'], 'FILE[0] must be an object'],
    [[openai, { ...azure, url: 'x' }], /^FILE\[1\]\.url is not an option; there are name, baseUrl, apiKey/],
    [[{ ...openai, baseUrl: 'api.openai.com' }], /^FILE\[0\]\.baseUrl must be an http or https URL/],
    [[{ ...openai, name: undefined }], /^FILE\[0\]\.name must be/],
    [[openai, openai], "FILE[1].name 'openai' is used twice"],
    [[{ ...openai, timeouts: { total: 'long' } }], /^FILE\[0\]\.timeouts\.total must be a number/],
    [[{ ...openai, apiKey: 7 }], /^FILE\[0\]\.apiKey must be text in printable ASCII, or an object such as/],
    [[{ ...openai, apiKey: { env: 'NOT_SET' } }], 'FILE[0].apiKey names the variable NOT_SET, which is not set'],
    [[{ ...openai, headers: { 'api-key': { env: 'NO' } } }], /^FILE\[0\]\.headers\.api-key names the variable NO/],
    [[{ ...openai, headers: 'x' }], 'FILE[0].headers must be an object'],
  ];
  for (const [content, message] of wrong) {
    it(`is refused by file and field: ${JSON.stringify(content).slice(0, 90)}`, () => {
      const said = refusal(content);
      expect(said).to.not.include('canary');
      const [, text = ''] = said.split(/^UPSTREAMS_FILE: /);
      if (typeof message === 'string') expect(text).to.equal(message);
      else expect(text).to.match(message);
    });
  }

  it('is refused when the file is missing, or together with UPSTREAM_BASE_URL', () => {
    expect(() => readConfiguration({ UPSTREAMS_FILE: '/none.json' })).to.throw('/none.json cannot be read (ENOENT)');
    expect(refusal([openai], { UPSTREAM_BASE_URL: openai.baseUrl })).to.equal(
      'UPSTREAMS_FILE: is set together with UPSTREAM_BASE_URL; put that upstream into the file',
    );
  });
});

const https = 'http://us:er@secure.example:3128';
const http = 'http://plain.example:3128';

describe('the proxies of the environment', () => {
  const proxyOf = (baseUrl: string, env: Environment) =>
    readConfiguration({ UPSTREAM_BASE_URL: baseUrl, ...env }).upstreams?.[0]?.proxy;

  const table: [string, string, Environment, string | undefined][] = [
    ['https URLs go by HTTPS_PROXY', 'https://a.example/v1', { HTTPS_PROXY: https, HTTP_PROXY: http }, https],
    ['http URLs by HTTP_PROXY', 'http://a.example/v1', { HTTPS_PROXY: https, HTTP_PROXY: http }, http],
    ['https URLs by HTTP_PROXY where there is no other', 'https://a.example/v1', { HTTP_PROXY: http }, http],
    ['http URLs never by HTTPS_PROXY', 'http://a.example/v1', { HTTPS_PROXY: https }, undefined],
    ['names in lower case come first', 'http://a.example/v1', { http_proxy: http, HTTP_PROXY: https }, http],
    ['an empty name counts as not set', 'http://a.example/v1', { http_proxy: '', HTTP_PROXY: http }, http],
    ['a proxy may have no scheme', 'http://a.example/v1', { HTTP_PROXY: 'plain.example:3128' }, http],
  ];
  for (const [rule, baseUrl, env, proxy] of table) {
    it(`say that ${rule}`, () => expect(proxyOf(baseUrl, env)).to.equal(proxy));
  }

  const excepted: [string, string, boolean][] = [
    ['https://api.example/v1', '*', true],
    ['https://api.example/v1', 'api.example', true],
    ['https://api.example/v1', 'other.example, api.example', true],
    ['https://api.example/v1', 'other.example api.example', true],
    ['https://API.Example/v1', 'api.EXAMPLE', true],
    ['https://eu.api.example/v1', 'api.example', true],
    ['https://eu.api.example/v1', '.api.example', true],
    ['https://eu.api.example/v1', '*.api.example', true],
    ['https://myapi.example/v1', 'api.example', false],
    ['https://example/v1', 'api.example', false],
    ['https://api.example/v1', 'api.example:443', true],
    ['https://api.example/v1', 'api.example:8443', false],
    ['https://api.example:8443/v1', 'api.example:8443', true],
    ['http://10.1.2.3:8000/v1', '10.1.2.3', true],
    ['http://[::1]:8000/v1', '::1', true],
    ['http://[::1]:8000/v1', '[::1]:8000', true],
    ['http://[::1]:8000/v1', '[::1]:9000', false],
    ['https://api.example/v1', ',', false],
  ];
  for (const [url, noProxy, isExcepted] of excepted) {
    it(`are ${isExcepted ? 'not ' : ''}used for ${url} with NO_PROXY=${noProxy}`, () => {
      const env = { HTTP_PROXY: http, HTTPS_PROXY: https };
      const byUpper = proxyOf(url, { ...env, NO_PROXY: noProxy });
      expect(byUpper === undefined).to.equal(isExcepted);
      expect(proxyOf(url, { ...env, no_proxy: noProxy })).to.equal(byUpper);
    });
  }

  it('do not meet the demo upstream, nor webhooks, which have WEBHOOK_PROXY', () => {
    const { upstreams, options } = readConfiguration({ HTTP_PROXY: http, WEBHOOK_PROXY: https });
    expect(upstreams).to.equal(undefined);
    expect(options.deliveries).to.deep.equal({ proxy: https });
    expect(options).not.to.have.property('proxy');
  });

  for (const name of ['HTTPS_PROXY', 'HTTP_PROXY', 'WEBHOOK_PROXY']) {
    for (const value of ['socks5://us:canary@proxy:1080', 'http://us:canary@proxy/path', 'http://us:canary%zz@proxy']) {
      it(`are refused by name and without their password: ${name}=${value}`, () => {
        expect(() => readConfiguration({ [name]: value }))
          .to.throw(`${name}: must be an http or https URL without a path`)
          .and.have.property('message')
          .that.does.not.include('canary');
      });
    }
  }

  it('are refused by the name in which they were set', () => {
    expect(() => readConfiguration({ https_proxy: 'socks5://proxy:1080' })).to.throw('https_proxy: must be');
  });

  it('are refused where their user or password alone cannot be decoded', () => {
    expect(() => readConfiguration({ HTTP_PROXY: 'http://us%C3:%A9x@proxy' })).to.throw('HTTP_PROXY: must be');
  });

  it('have a warning for networks that are to be excepted, which has no effect', () => {
    const { warnings } = readConfiguration({ NO_PROXY: 'localhost,10.0.0.0/8 fd00::/8' });
    expect(warnings).to.deep.equal([
      'NO_PROXY: 10.0.0.0/8, fd00::/8 has no effect: name hosts, domains or single addresses, not networks',
    ]);
  });

  it('of other programs are taken for no mistake', () => {
    const { warnings } = readConfiguration({
      ...{ ftp_proxy: http, FTP_PROXY: http, ALL_PROXY: http, http_proxy: http, https_proxy: https, no_proxy: '*' },
    });
    expect(warnings).to.deep.equal([]);
  });
});
