import { createHmac } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { verifySignature } from '../../src/receiver/index.ts';

const body = '{"id":"evt_1","note":"ä€𝄞"}';
const secret = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const sign = (bytes: string | Buffer, key = secret) =>
  `sha256=${createHmac('sha256', key).update(bytes).digest('hex')}`;

describe('verifySignature', () => {
  it('accepts the right signature over bytes, views of bytes and text', () => {
    const padded = Buffer.from(`xx${body}xx`);
    const view = new Uint8Array(padded.buffer, padded.byteOffset + 2, padded.length - 4);
    for (const raw of [body, Buffer.from(body), new Uint8Array(Buffer.from(body)), view]) {
      expect(verifySignature(raw, sign(body), secret)).to.equal(true);
    }
  });

  it('accepts bytes of another realm, as a Buffer is in Jest with jsdom', () => {
    const foreign = new (runInNewContext('Uint8Array'))(Buffer.from(body));
    expect(foreign).to.not.be.instanceOf(Uint8Array);
    expect(verifySignature(foreign, sign(body), secret)).to.equal(true);
    expect(verifySignature(foreign, sign(`${body} `), secret)).to.equal(false);
  });

  it('accepts a body that is no text at all', () => {
    const bytes = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
    expect(verifySignature(bytes, sign(bytes), secret)).to.equal(true);
  });

  const right = sign(body);
  const wrong: [what: string, header: unknown][] = [
    ['missing', undefined],
    ['empty', ''],
    ['of another secret', sign(body, 'another')],
    ['of another body', sign(`${body} `)],
    ['without sha256=', right.slice(7)],
    ['in capitals', right.toUpperCase()],
    ['too short', right.slice(0, -1)],
    ['too long', `${right}0`],
    ['off by one digit', right.slice(0, -1) + (right.endsWith('0') ? '1' : '0')],
    ['of as many characters but more bytes', `${right.slice(0, -1)}ä`],
    ['sent twice', `${right}, ${right}`],
    ['a list', [right]],
  ];
  for (const [what, header] of wrong) {
    it(`refuses a signature that is ${what}`, () => {
      expect(verifySignature(body, header as string, secret)).to.equal(false);
    });
  }

  it('accepts the headers of a request, as Node and as fetch have them', () => {
    for (const headers of [{ 'x-service-signature': right }, new Headers({ 'X-Service-Signature': right })]) {
      expect(verifySignature(body, headers, secret)).to.equal(true);
      expect(verifySignature(`${body} `, headers, secret)).to.equal(false);
    }
    expect(verifySignature(body, {}, secret)).to.equal(false);
    expect(verifySignature(body, new Headers(), secret)).to.equal(false);
  });

  it('accepts several secrets, while one replaces another', () => {
    expect(verifySignature(body, right, ['new', secret])).to.equal(true);
    expect(verifySignature(body, right, ['new', 'newer'])).to.equal(false);
    expect(() => verifySignature(body, right, [])).to.throw(TypeError, /secret/);
    expect(() => verifySignature(body, right, [secret, ''])).to.throw(TypeError, /secret/);
  });

  for (const raw of [{ id: 'evt_1' }, undefined, null, 1]) {
    it(`throws a TypeError for ${JSON.stringify(raw)}, which is no raw body`, () => {
      expect(() => verifySignature(raw as unknown as string, right, secret)).to.throw(TypeError, /rawBody must be/);
    });
  }

  for (const unset of ['', undefined]) {
    it(`refuses the secret ${JSON.stringify(unset)}, with which anybody could sign`, () => {
      expect(() => verifySignature(body, sign(body, ''), unset as string)).to.throw(TypeError, /secret/);
    });
  }
});
