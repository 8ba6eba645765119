import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import { parseNetworks } from '../../src/outbound/addresses.ts';
import { checkWebhookUrl, type UrlRules } from '../../src/webhooks/url.ts';

const strict: UrlRules = { allowHttp: false, networks: [] };
const local: UrlRules = { allowHttp: true, networks: parseNetworks(['127.0.0.0/8', '::1/128']) };

function refusal(url: unknown, rules = strict): GatewayError {
  try {
    checkWebhookUrl(url as string, rules);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error(`${url} was taken`);
}

describe('the URL of a webhook', () => {
  for (const url of [
    'https://example.com',
    'https://example.com/',
    'HTTPS://Example.COM/webhooks?account=1&x=%20',
    'https://example.com:8443/a/b',
    'https://exämple.de/häken',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]/hook',
    'https://notlocalhost/',
    'https://localhost.example.com/',
    'https://example.com/@user',
    `https://example.com/${'a'.repeat(2048 - 'https://example.com/'.length)}`,
  ]) {
    it(`may be ${url.slice(0, 60)}`, () => {
      expect(() => checkWebhookUrl(url, strict)).to.not.throw();
    });
  }

  const unusable: [url: unknown, code: string][] = [
    ['', 'invalid_value'],
    ['example.com/webhooks', 'invalid_value'],
    ['/webhooks', 'invalid_value'],
    ['//example.com/webhooks', 'invalid_value'],
    ['https:example.com', 'invalid_value'],
    ['https:///example.com', 'invalid_value'],
    ['https://', 'invalid_value'],
    ['https://?x', 'invalid_value'],
    ['https://./', 'invalid_value'],
    ['https://exa mple.com', 'invalid_value'],
    [' https://example.com', 'invalid_value'],
    ['https://example.com\n', 'invalid_value'],
    ['https://exam\tple.com/', 'invalid_value'],
    ['https://example.com/\0', 'invalid_value'],
    ['https://example.com/\ud800', 'invalid_value'],
    ['https://example.com\\@evil.example', 'invalid_value'],
    ['https:\\\\example.com', 'invalid_value'],
    ['https://256.1.1.1/', 'invalid_value'],
    ['https://[::1%25eth0]/', 'invalid_value'],
    ['https://example.com:99999/', 'invalid_value'],
    ['https://example.com:0/', 'invalid_value'],
    ['https://example.com:000', 'invalid_value'],
    ['https://1.1.1.1:0/hook?x', 'invalid_value'],
    ['https://[2606:4700:4700::1111]:0/', 'invalid_value'],
    ['https://user@example.com/', 'invalid_value'],
    ['https://user:password@example.com/', 'invalid_value'],
    ['https://@example.com/', 'invalid_value'],
    ['https://:@example.com?x', 'invalid_value'],
    ['https://example.com/#', 'invalid_value'],
    ['https://example.com/a#b', 'invalid_value'],
    [`https://example.com/${'a'.repeat(2048)}`, 'invalid_value'],
    [{ $ne: null }, 'invalid_type'],
    [['https://example.com'], 'invalid_type'],
    [null, 'invalid_type'],
    [undefined, 'invalid_type'],
    ['http://example.com/', 'url_not_allowed'],
    ['ftp://example.com/', 'url_not_allowed'],
    ['file://etc/passwd', 'url_not_allowed'],
    ['wss://example.com/', 'url_not_allowed'],
  ];
  for (const [url, code] of unusable) {
    it(`may not be ${JSON.stringify(url)?.slice(0, 60)} (${code})`, () => {
      const error = refusal(url);
      expect(error).to.include({ code, param: 'url' });
      expect(error.message).to.match(/^url: must /);
    });
  }

  for (const host of [
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '0x7f.1',
    '0177.0.0.1',
    '2130706433',
    '%31%32%37.0.0.1',
    '１２７.０.０.１',
    '127。0。0。1',
    '0.0.0.0',
    '0',
    '10.0.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '168.63.129.16',
    '255.255.255.255',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[::8.8.8.8]',
    '[64:ff9b::7f00:1]',
    '[fd00::1]',
    '[fe80::1]',
    '[4000::1]',
    '[2002:7f00:1::]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'localhost..',
    'a.localhost',
    'a.b.localhost.',
    'ⓛocalhost',
  ]) {
    it(`may not lead to ${host}, whatever the port and path`, () => {
      for (const url of [`https://${host}`, `https://${host}:8443/hook?x`]) {
        const error = refusal(url);
        expect(error).to.include({ code: 'url_not_allowed', param: 'url' });
        expect(error.message).to.include('must lead to a public address');
      }
    });
  }

  it('may be http with allowHttp, but no other scheme and no private address', () => {
    const rules = { allowHttp: true, networks: [] };
    expect(() => checkWebhookUrl('http://example.com/', rules)).to.not.throw();
    expect(() => checkWebhookUrl('https://example.com/', rules)).to.not.throw();
    expect(refusal('ftp://example.com/', rules).code).to.equal('url_not_allowed');
    expect(refusal('http://127.0.0.1/', rules).code).to.equal('url_not_allowed');
  });

  it('is refused with an error that asks for https where it is http', () => {
    expect(refusal('http://example.com/').message).to.include('must be an https URL');
  });

  it('may lead to the private networks that are opened, and to localhost if either loopback address is', () => {
    for (const host of [
      '127.0.0.1:9000',
      'localhost:9000',
      'a.localhost',
      '[::1]:9000',
      '[::ffff:127.0.0.1]',
      '0x7f.1',
    ]) {
      expect(() => checkWebhookUrl(`http://${host}/hook`, local), host).to.not.throw();
    }
    const onlyV6 = { allowHttp: false, networks: parseNetworks(['::1/128']) };
    expect(() => checkWebhookUrl('https://localhost/', onlyV6)).to.not.throw();
    expect(refusal('https://127.0.0.1/', onlyV6).code).to.equal('url_not_allowed');
    expect(refusal('https://10.0.0.1/', local).code).to.equal('url_not_allowed');
  });
});
