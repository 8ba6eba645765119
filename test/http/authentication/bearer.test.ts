import { expect } from 'chai';
import { bearerToken, byApiKey, isSameOrigin } from '../../../src/http/authentication.ts';
import { GatewayError } from '../../../src/index.ts';

/** A request as Node shows it: the first of two equal headers, and the raw list of both. */
function requestWith(...values: string[]): Parameters<typeof bearerToken>[0] {
  return {
    headers: values[0] === undefined ? {} : { authorization: values[0] },
    rawHeaders: ['Host', 'example.com', ...values.flatMap((value) => ['Authorization', value])],
  };
}

function codeOf(...values: string[]): string {
  try {
    bearerToken(requestWith(...values));
  } catch (error) {
    return (error as GatewayError).code;
  }
  return 'none';
}

describe('the bearer token', () => {
  for (const [header, token] of [
    ['Bearer abc', 'abc'],
    ['bearer abc', 'abc'],
    ['BEARER   a.b-c_d~e+f/g==', 'a.b-c_d~e+f/g=='],
  ] as const) {
    it(`is read from ${header}`, () => {
      expect(bearerToken(requestWith(header))).to.equal(token);
    });
  }

  it('is missing when there is no header, or nothing follows the scheme', () => {
    expect(codeOf()).to.equal('missing_api_key');
    expect(codeOf('')).to.equal('missing_api_key');
    expect(codeOf('Bearer')).to.equal('missing_api_key');
    expect(codeOf('Bearer ')).to.equal('missing_api_key');
  });

  for (const header of [
    'Basic dTpw',
    'abc',
    'Bearerabc',
    'Bearer a b',
    'Bearer a, Bearer b',
    'Bearer ä',
    'Bearer\tabc',
  ]) {
    it(`is not read from ${JSON.stringify(header)}`, () => {
      expect(codeOf(header)).to.equal('invalid_authorization');
    });
  }

  it('is refused when two are sent, even if they are the same', () => {
    expect(codeOf('Bearer abc', 'Bearer abc')).to.equal('invalid_authorization');
    expect(codeOf('Bearer abc', 'Basic dTpw')).to.equal('invalid_authorization');
  });

  it('is never in the error message', () => {
    expect(() => bearerToken(requestWith('Token canary-secret')))
      .to.throw(GatewayError)
      .with.property('message')
      .that.does.not.contain('canary');
  });
});

describe('the key of a request', () => {
  const keyOf = async (headers: Record<string, string>) => {
    const rawHeaders = Object.entries(headers).flat();
    try {
      const principal = await byApiKey(async (userId) => ({ userId }))({ headers, rawHeaders } as never);
      return principal?.userId;
    } catch (error) {
      return (error as GatewayError).code;
    }
  };

  it('is x-api-key, where there is no bearer token', async () => {
    expect(await keyOf({ 'x-api-key': 'abc' })).to.equal('abc');
    expect(await keyOf({ authorization: 'Bearer ', 'x-api-key': 'abc' })).to.equal('abc');
    expect(await keyOf({ authorization: 'Bearer token', 'x-api-key': 'abc' })).to.equal('token');
  });

  it('is missing where both are empty', async () => {
    expect(await keyOf({})).to.equal('missing_api_key');
    expect(await keyOf({ authorization: '', 'x-api-key': '' })).to.equal('missing_api_key');
  });

  it('is no text of another form, and none of two', async () => {
    for (const key of ['a b', 'Bearer abc', 'abc, abc', 'ä']) {
      expect(await keyOf({ 'x-api-key': key }), key).to.equal('invalid_authorization');
    }
    expect(await keyOf({ authorization: 'Basic dTpw', 'x-api-key': 'abc' })).to.equal('invalid_authorization');
  });
});

describe('the target of a request', () => {
  it('says in absolute form which host is meant, whatever the Host header says', () => {
    const headers = { origin: 'https://gateway.example', host: 'evil.example' };
    const method = 'POST';
    expect(isSameOrigin({ method, url: '/v1/webhooks', headers })).to.equal(false);
    expect(isSameOrigin({ method, url: 'https://Gateway.example/v1/webhooks', headers })).to.equal(true);
    expect(isSameOrigin({ method, url: '/v1/webhooks', headers: { ...headers, host: 'gateway.example' } })).to.equal(
      true,
    );
  });
});
