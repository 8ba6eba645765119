import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';
import type { Environment } from '../../../src/cli/config/environment.ts';

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
    expect(options).to.include({ webhookProxy: https }).and.not.have.property('proxy');
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
