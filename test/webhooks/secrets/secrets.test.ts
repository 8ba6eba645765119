import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { GatewayError } from '../../../src/index.ts';
import { chooseSecret } from '../../../src/webhooks/rotation.ts';
import { createSealer } from '../../../src/webhooks/secrets.ts';

const bytes = () => randomBytes(32).toString('base64');
const place = 'gateway_webhooks:wh_1:secret';

function thrownBy(action: () => unknown): GatewayError {
  try {
    action();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('a sealed secret', () => {
  const sealer = createSealer([`k1:${bytes()}`]);
  const sealed = sealer.seal('whsec_ä€𝄞', place);

  it('opens to what was sealed', () => {
    expect(sealer.open(sealed, place)).to.equal('whsec_ä€𝄞');
    expect(sealer.open(sealer.seal('', place), place)).to.equal('');
  });

  it('consists of v1, the id of the key, an initialisation vector, text and tag, and differs each time', () => {
    expect(sealed).to.match(/^v1\.k1\.[\w-]{16}\.[\w-]+\.[\w-]{22}$/);
    expect(sealer.seal('whsec_ä€𝄞', place)).to.not.equal(sealed);
  });

  it('opens in the place that it was sealed for, and nowhere else', () => {
    for (const other of [
      'gateway_webhooks:wh_2:secret',
      'other_webhooks:wh_1:secret',
      'gateway_webhooks:wh_1:url',
      '',
    ]) {
      expect(thrownBy(() => sealer.open(sealed, other)).code).to.equal('secret_unreadable');
    }
  });

  it('does not open when any part of it was altered', () => {
    const parts = sealed.split('.');
    for (const i of [2, 3, 4]) {
      const part = parts[i] as string;
      const altered = parts.with(i, (part.startsWith('A') ? 'B' : 'A') + part.slice(1)).join('.');
      expect(thrownBy(() => sealer.open(altered, place)).code, `part ${i}`).to.equal('secret_unreadable');
    }
  });

  const noSealedTexts = ['', 'plain', 'v1.k1', 'v1.k1...', `v2${sealed.slice(2)}`, `${sealed}.x`, sealed.slice(0, -4)];
  for (const text of noSealedTexts) {
    it(`is unreadable when it is '${text.slice(0, 12)}' of ${text.length} characters`, () => {
      expect(thrownBy(() => sealer.open(text, place)).code).to.equal('secret_unreadable');
    });
  }

  it('names the key that sealed it, also when that key is missing', () => {
    expect(sealer.keyIdOf(sealed)).to.equal('k1');
    expect(thrownBy(() => sealer.keyIdOf('plain')).code).to.equal('secret_unreadable');
    const error = thrownBy(() => createSealer([`k2:${bytes()}`]).open(sealed, place));
    expect(error.code).to.equal('secret_unreadable');
    expect(error.message).to.include("'k1'").and.include('secretKeys');
  });

  it('does not open with another key of the same name', () => {
    expect(thrownBy(() => createSealer([`k1:${bytes()}`]).open(sealed, place)).code).to.equal('secret_unreadable');
  });
});

describe('a sealer with secret keys', () => {
  it('seals with the first key and opens with all', () => {
    const old = `k1:${bytes()}`;
    const sealedLongAgo = createSealer([old]).seal('secret', place);
    const sealer = createSealer([`k2:${bytes()}`, old]);
    expect(sealer.newestKeyId).to.equal('k2');
    expect(sealer.keyIdOf(sealer.seal('secret', place))).to.equal('k2');
    expect(sealer.open(sealedLongAgo, place)).to.equal('secret');
  });

  it('accepts keys in base64url and without padding', () => {
    const raw = Buffer.alloc(32, 0xfb);
    const sealed = createSealer([`k1:${raw.toString('base64')}`]).seal('secret', place);
    expect(createSealer([`k1:${raw.toString('base64url')}`]).open(sealed, place)).to.equal('secret');
  });

  const good = `k1:${bytes()}`;
  const wrong: [what: string, entry: unknown][] = [
    ['without an id', bytes()],
    ['with an empty id', `:${bytes()}`],
    ['with a dot in its id', `k.1:${bytes()}`],
    ['with an id too long', `${'k'.repeat(33)}:${bytes()}`],
    ['of 16 bytes', `k2:${randomBytes(16).toString('base64')}`],
    ['of 33 bytes', `k2:${randomBytes(33).toString('base64')}`],
    ['that is not base64', `k2:${'!'.repeat(44)}`],
    ['with a line break', `k2:${bytes()}\n`],
    ['with the id of another', `k1:${bytes()}`],
    ['that is no text', { $ne: null }],
    ['that is missing', undefined],
  ];
  for (const [what, entry] of wrong) {
    it(`refuses a key ${what}, and names its place without showing it`, () => {
      const error = thrownBy(() => createSealer([good, entry as string]));
      expect(error).to.include({ code: 'invalid_options', param: 'secretKeys[1]' });
      const key = String(entry).split(':').at(-1) as string;
      if (key.length > 20) expect(error.message).to.not.include(key.slice(0, 20));
    });
  }

  it('refuses an empty list of keys', () => {
    expect(thrownBy(() => createSealer([]))).to.include({ code: 'invalid_options', param: 'secretKeys' });
  });

  it('shows no key when it is printed', () => {
    const raw = bytes();
    expect(inspect(createSealer([`k1:${raw}`]), { depth: 9, showHidden: true })).to.not.include(raw.slice(0, 20));
  });
});

describe('The check for secrets that are easy to guess', () => {
  const refused: [secret: string, why: RegExp][] = [
    ...['aaaaaaaa', 'a'.repeat(256), '00000000', '𝄞'.repeat(256)].map((s): [string, RegExp] => [s, /different/]),
    ...['        ', '  spaces  '].map((s): [string, RegExp] => [s, /white space/]),
    ['a        a', /different/],
    ...['abababab', '12121212', 'aaaabbbb', 'aabbccdd', '11112222'].map((s): [string, RegExp] => [s, /different/]),
    ...['abcde'.repeat(3), 'hunter2hunter2', 'x7Qp2x7Qp2x7Q'].map((s): [string, RegExp] => [s, /repeated/]),
    ...['12345678', '1234567890', '87654321', 'abcdefgh', 'hgfedcba', 'ABCDEFGH'].map((s): [string, RegExp] => [
      s,
      /sequences/,
    ]),
    ...['qwertyui', 'poiuytre', 'asdfghjk', 'abcd1234', 'qwer1234', 'aaaa1234bbbb'].map((s): [string, RegExp] => [
      s,
      /sequences/,
    ]),
    ...[
      'password',
      'Password123!',
      'P-a-s-s-w-o-r-d',
      'changeme',
      'letmein1',
      'webhook-secret',
      'secret123',
      'secret_key',
    ].map((s): [string, RegExp] => [s, /common word/]),
    ['whsec_password', /common word/],
    ['whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', /different/],
    ['whsec_12345678', /sequences/],
    ['whsec_abc', /different/],
  ];
  for (const [secret, why] of refused) {
    it(`refuses '${secret.slice(0, 24)}' (${secret.length} characters), and says why without showing it`, () => {
      const { code, param, message } = thrownBy(() => chooseSecret(secret));
      expect({ code, param }).to.deep.equal({ code: 'invalid_value', param: 'secret' });
      expect(message).to.match(why);
      expect(message).not.to.include(secret);
    });
  }

  const taken = [
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
    'a-long-enough-secret',
    'long-enough',
    'another-secret',
    'test-secret',
    'your-webhook-secret',
    'my-webhook-secret',
    'supersecret',
    'a secret with ünïcode',
    'correct horse battery staple',
    '__proto__',
    'has  spaces  within',
    '{"$ne":null}',
    '3f786850e387550fdab836ed7e6dc881de23001b',
    '9b2c7f1e-5d64-4c8a-b1f3-2f6e7d8c9a01',
  ];
  for (const secret of taken) {
    it(`accepts '${secret}'`, () => {
      expect(chooseSecret(secret)).to.deep.equal({ secret, isGenerated: false });
    });
  }

  it('accepts random secrets in hex, base64 and base64url', () => {
    for (let i = 0; i < 2_000; i += 1) {
      for (const form of ['hex', 'base64', 'base64url'] as const) {
        const secret = randomBytes(16).toString(form);
        expect(chooseSecret(secret)).to.deep.equal({ secret, isGenerated: false });
      }
    }
  });
});

describe('an idempotency key', () => {
  it('of upstreams is hashed with a key that is derived from the secret key and differs from it', () => {
    const key = `k1:${bytes()}`;
    const derived = createSealer([key]).derive('a');
    expect(derived).to.have.lengthOf(32);
    expect(derived.toString('base64')).not.to.equal(key.slice(3));
    expect(derived.equals(createSealer([key]).derive('b'))).to.equal(false);
  });
});
