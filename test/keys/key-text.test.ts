import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { digestOf, keyIdIn, newKeyText } from '../../src/keys/verify-key.ts';
import { newId } from '../support/ids.ts';

describe('the text of an API key', () => {
  const id = newId('key', Date.now());
  const text = newKeyText(id);

  it('is emg_, the id without its prefix, and 256 random bits', () => {
    expect(text).to.match(/^emg_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/);
    expect(text.slice(4, 30)).to.equal(id.slice(4));
    expect(Buffer.from(text.slice(31), 'base64url')).to.have.length(32);
    expect(newKeyText(id)).to.not.equal(text);
  });

  it('carries its id', () => {
    expect(keyIdIn(text)).to.equal(id);
  });

  it('has the SHA-256 of the whole text as its digest', () => {
    expect(digestOf(text).toString('hex')).to.equal(createHash('sha256').update(text).digest('hex'));
  });

  const malformed: [what: string, token: unknown][] = [
    ['no characters', ''],
    ['another prefix', `sk_${text.slice(3)}`],
    ['a missing character', text.slice(0, -1)],
    ['a character too many', `${text}A`],
    ['a line break at the end', `${text.slice(0, -1)}\n`],
    ['another separator', `${text.slice(0, 30)}-${text.slice(31)}`],
    ['capitals in the id', text.slice(0, 4) + text.slice(4, 30).toUpperCase() + text.slice(30)],
    ['characters of plain base64', `${text.slice(0, -2)}+/`],
    ['a NUL', `${text.slice(0, -1)}\0`],
    ['half a surrogate pair', `${text.slice(0, -1)}\ud800`],
    ['a query operator', { $ne: null }],
    ['a list', [text]],
    ['no value', undefined],
  ];
  for (const [what, token] of malformed) {
    it(`is refused with ${what}`, () => {
      expect(keyIdIn(token as string)).to.equal(null);
    });
  }
});
