import { expect } from 'chai';
import { signBody, standardWebhookSignature } from '../../../src/deliveries/signature.ts';

// The expected values were computed with Python's hmac and base64 modules, not with the code under test.
const body = '{"id":"evt_1","type":"credits.low","data":{"note":"ä€"}}';

describe('x-service-signature', () => {
  const known: [what: string, body: string | Uint8Array, secret: string, signature: string][] = [
    [
      'RFC 4231, test case 2',
      'what do ya want for nothing?',
      'Jefe',
      'sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
    ],
    [
      'a whsec_ secret, which is used as it is written',
      body,
      'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
      'sha256=78e90cfec3c895ec5584e28ea79e11da65a8da4a48f310d8e7755826905622cc',
    ],
    [
      'a secret outside ASCII',
      body,
      'geheim-ä€𝄞',
      'sha256=8a7ac181f319d4bb41d7e0884b37a3cb3e9adcdce092f1f4aed9ec81828fe0fc',
    ],
  ];
  for (const [what, content, secret, signature] of known) {
    it(`matches the known signature for ${what}`, () => {
      expect(signBody(content, secret)).to.equal(signature);
    });
  }

  it('is the same for a text and for its UTF-8 bytes', () => {
    expect(signBody(Buffer.from(body), 'secret')).to.equal(signBody(body, 'secret'));
    expect(signBody(new Uint8Array(Buffer.from(body)), 'secret')).to.equal(signBody(body, 'secret'));
  });

  it('changes with a single byte of the body', () => {
    expect(signBody(`${body} `, 'secret')).to.not.equal(signBody(body, 'secret'));
  });
});

describe('webhook-signature', () => {
  it('matches the example of Standard Webhooks', () => {
    const signature = standardWebhookSignature(
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1614265330,
      '{"test": 2432232314}',
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    );
    expect(signature).to.equal('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  const known: [what: string, secret: string, signature: string][] = [
    [
      'the bytes that a whsec_ secret encodes',
      'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
      'v1,VtTwOo7Dfi9BBMimW4pHmm6tM8KN14ILcJ3M8DNw43o=',
    ],
    ['a padded whsec_ secret', 'whsec_AAECAwQ=', 'v1,aO2cXbTkaO1y+ZodfTSJEEm8ZAw/4954FZ8yXQh2eGo='],
    ['a whsec_ secret without its padding', 'whsec_AAECAwQ', 'v1,aO2cXbTkaO1y+ZodfTSJEEm8ZAw/4954FZ8yXQh2eGo='],
    ['the UTF-8 bytes of any other secret', 'plain secret ä', 'v1,gjq1DqFY+ympsorNVG4ErBkhLC9GZZ4lcrn6duy00xE='],
    [
      'the UTF-8 bytes of a whsec_ secret that is not base64',
      'whsec_not base64!',
      'v1,BAZI+CZDvBsd9gcy0kwexdiGAxhaIwG5/SU1IVZuMW8=',
    ],
  ];
  for (const [what, secret, signature] of known) {
    it(`is keyed with ${what}`, () => {
      expect(standardWebhookSignature('evt_1', 1_700_000_000, body, secret)).to.equal(signature);
      expect(standardWebhookSignature('evt_1', 1_700_000_000, Buffer.from(body), secret)).to.equal(signature);
    });
  }

  it('covers the id and the time, not the body alone', () => {
    const signature = standardWebhookSignature('evt_1', 1_700_000_000, body, 'secret12');
    expect(standardWebhookSignature('evt_2', 1_700_000_000, body, 'secret12')).to.not.equal(signature);
    expect(standardWebhookSignature('evt_1', 1_700_000_001, body, 'secret12')).to.not.equal(signature);
  });
});
