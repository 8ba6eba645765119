import { expect } from 'chai';
import { signatureHeaders, signBody, standardWebhookSignature } from '../../../src/deliveries/signature.ts';
import { secretsInUse } from '../../../src/webhooks/webhook.ts';

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

const endsAt = new Date('2026-01-01T00:00:00.000Z');
const before = new Date(endsAt.getTime() - 1);
const after = new Date(endsAt.getTime() + 1);
const rotation = (serviceSignature: 'new' | 'previous') => ({ previousSecret: 'old', endsAt, serviceSignature });

describe('the secrets that sign', () => {
  for (const [what, given, now, service, standard] of [
    ['one secret, never rotated', undefined, before, 'fresh', ['fresh']],
    ['one secret, its rotation cleared', null, before, 'fresh', ['fresh']],
    ['both during the overlap, the new one first', rotation('new'), before, 'fresh', ['fresh', 'old']],
    [
      'both during the overlap, the old one for x-service-signature',
      rotation('previous'),
      before,
      'old',
      ['fresh', 'old'],
    ],
    ['the new one from the moment the overlap ends', rotation('new'), endsAt, 'fresh', ['fresh']],
    ['the new one for x-service-signature too from then on', rotation('previous'), endsAt, 'fresh', ['fresh']],
    ['the new one ever after', rotation('previous'), after, 'fresh', ['fresh']],
  ] as const) {
    it(`are ${what}`, () => {
      const receiver = { secret: 'fresh', ...(given !== undefined && { rotation: given }) };
      expect(secretsInUse(receiver, now)).to.deep.equal({ service, standard });
    });
  }

  it('each make a signature, separated by a space', () => {
    const body = Buffer.from('{}');
    const secrets = { service: 'old', standard: ['fresh', 'old'] };
    const headers = signatureHeaders({ eventId: 'evt_1', startedAt: before, secrets }, body);
    const seconds = Math.floor(before.getTime() / 1_000);
    expect(headers['x-service-signature']).to.equal(signBody(body, 'old'));
    expect(headers['webhook-signature']).to.equal(
      ['fresh', 'old'].map((secret) => standardWebhookSignature('evt_1', seconds, body, secret)).join(' '),
    );
  });
});
