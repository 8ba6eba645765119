import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { whyGuessable } from '../../../src/webhooks/rotation.ts';

describe('The check for secrets that are easy to guess', () => {
  const refused: [secret: string, why: RegExp][] = [
    ...['aaaaaaaa', 'a'.repeat(256), '00000000', '        ', '𝄞'.repeat(256)].map((s): [string, RegExp] => [
      s,
      /different/,
    ]),
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
      expect(whyGuessable(secret)).to.match(why);
      expect(whyGuessable(secret)).not.to.include(secret);
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
    '  spaces  ',
    '{"$ne":null}',
    '3f786850e387550fdab836ed7e6dc881de23001b',
    '9b2c7f1e-5d64-4c8a-b1f3-2f6e7d8c9a01',
  ];
  for (const secret of taken) {
    it(`accepts '${secret}'`, () => {
      expect(whyGuessable(secret)).to.equal(undefined);
    });
  }

  it('accepts random secrets in hex, base64 and base64url', () => {
    for (let i = 0; i < 2_000; i += 1) {
      for (const form of ['hex', 'base64', 'base64url'] as const) {
        const secret = randomBytes(16).toString(form);
        expect(whyGuessable(secret), secret).to.equal(undefined);
      }
    }
  });
});
