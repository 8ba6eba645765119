import { expect } from 'chai';
import { classify } from '../../src/outbound/outbound-error.ts';

const table: [unknown, string][] = [
  [{ code: 'ENOTFOUND' }, 'dns_failed'],
  [{ code: 'EAI_AGAIN' }, 'dns_failed'],
  [{ code: 'ECONNREFUSED' }, 'connect_refused'],
  [{ code: 'EHOSTUNREACH' }, 'connect_failed'],
  [{ code: 'UND_ERR_CONNECT_TIMEOUT' }, 'connect_timeout'],
  [{ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'tls_failed'],
  [{ code: 'CERT_HAS_EXPIRED' }, 'tls_failed'],
  [{ code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, 'tls_failed'],
  [{ code: 'ERR_SSL_WRONG_VERSION_NUMBER' }, 'tls_failed'],
  [{ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, 'tls_failed'],
  [{ code: 'ECONNRESET' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET' }, 'reset'],
  [{ name: 'HTTPParserError' }, 'invalid_response'],
  [{ name: 'HTTPParserError', message: 'Response does not match (Invalid EOF state)' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET', message: 'other side closed' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET', message: 'bad response' }, 'invalid_response'],
  [{ code: 'ECANCELLED' }, 'dns_failed'],
  [{ code: 'ETIMEOUT' }, 'dns_failed'],
  [{ code: 'ETIMEDOUT' }, 'connect_timeout'],
  [new DOMException('', 'TimeoutError'), 'timeout'],
  [new DOMException('', 'AbortError'), 'aborted'],
  [new AggregateError([{ code: 'ECONNREFUSED' }, { code: 'ENETUNREACH' }]), 'connect_refused'],
  [{ code: 'SOMETHING_NEW' }, 'unknown'],
  ['a string', 'unknown'],
  [undefined, 'unknown'],
];

describe('the classification of failed calls', () => {
  for (const [error, code] of table) {
    const shown = (error as { code?: string })?.code ?? (error as Error)?.name ?? String(error);
    it(`reports ${shown} as ${code}`, () => {
      expect(classify(error).code).to.equal(code);
    });
  }

  it('tells a reset on a reused socket from one on a fresh socket', () => {
    expect(classify({ code: 'ECONNRESET', reusedSocket: true }).reusedSocket).to.equal(true);
    expect(classify({ code: 'UND_ERR_SOCKET', socket: { bytesRead: 100 } }).reusedSocket).to.equal(true);
    expect(classify({ code: 'UND_ERR_SOCKET', socket: { bytesRead: 0 } }).reusedSocket).to.equal(false);
    expect(classify({ code: 'ECONNRESET' }).reusedSocket).to.equal(false);
  });

  it('returns an error unchanged that is already classified', () => {
    const error = classify({ code: 'ECONNRESET' });
    expect(classify(error)).to.equal(error);
  });
});
