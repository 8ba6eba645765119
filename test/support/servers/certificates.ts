import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** A certificate with its key, both in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** What a certificate of a test says. */
export interface CertificateSubject {
  readonly name: string;
  /** @default tomorrow */
  readonly notAfter?: Date;
}

const day = 86_400_000;

function element(tag: number, ...content: Buffer[]): Buffer {
  const body = Buffer.concat(content);
  const { length } = body;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const sequence = (...content: Buffer[]) => element(0x30, ...content);
const oid = (hex: string) => element(0x06, Buffer.from(hex, 'hex'));
const time = (date: Date) =>
  element(0x17, Buffer.from(`${date.toISOString().slice(2, 19).replace(/[-:T]/g, '')}Z`, 'latin1'));
const bits = (content: Buffer) => element(0x03, Buffer.from([0]), content);
/** A distinguished name of nothing but a common name. */
const distinguished = (name: string) =>
  sequence(element(0x31, sequence(oid('550403'), element(0x0c, Buffer.from(name)))));
const basicConstraints = (authority: boolean) =>
  sequence(oid('551d13'), element(0x04, sequence(...(authority ? [element(0x01, Buffer.from([0xff]))] : []))));
const alternativeName = (name: string) =>
  sequence(oid('551d11'), element(0x04, sequence(element(0x82, Buffer.from(name)))));
const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'));

interface Issuer {
  readonly name: string;
  readonly privateKey: KeyObject;
}

/** RFC 5280, section 4.1, with what TLS servers need and nothing more. */
function certificate(subject: CertificateSubject, publicKey: KeyObject, issuer: Issuer, authority: boolean): string {
  const { name, notAfter = new Date(Date.now() + day) } = subject;
  const signed = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    distinguished(issuer.name),
    sequence(time(new Date(Date.now() - 30 * day)), time(notAfter)),
    distinguished(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    element(0xa3, sequence(basicConstraints(authority), alternativeName(name))),
  );
  const der = sequence(signed, ecdsaWithSha256, bits(sign('sha256', signed, issuer.privateKey)));
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
}

function newKeys() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  return { publicKey, privateKey, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** A certificate that vouches for itself. */
export function selfSigned(subject: CertificateSubject): Certificate {
  const { publicKey, privateKey, key } = newKeys();
  return { cert: certificate(subject, publicKey, { name: subject.name, privateKey }, false), key };
}

/** A certificate authority of the test's own: its certificate, and what issues others. */
export function createAuthority(): { cert: string; issue(subject: CertificateSubject): Certificate } {
  const name = 'Authority of the tests';
  const { publicKey, privateKey } = newKeys();
  return {
    cert: certificate({ name }, publicKey, { name, privateKey }, true),
    issue(subject) {
      const own = newKeys();
      return { cert: certificate(subject, own.publicKey, { name, privateKey }, false), key: own.key };
    },
  };
}
