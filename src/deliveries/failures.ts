import type { FailureCode } from './model.ts';

/** What a failure means and what the webhook's owner can do about it. */
export interface FailureAdvice {
  readonly meaning: string;
  readonly remedy: string;
}

/**
 * Every code that an attempt can fail with, those of a status together. The receiver causes most of them, the gateway the last ones.
 * openapi.yaml (`DeliveryErrorCode`) has the same table, and docs/webhooks.md is generated from this one.
 */
export const failures: Readonly<Record<Exclude<FailureCode, `http_${number}`> | 'http_<status>', FailureAdvice>> = {
  dns_failed: {
    meaning: 'The host name of the URL could not be resolved, or not in time.',
    remedy: 'Check the name, its A and AAAA records and its name servers, from outside your network.',
  },
  address_not_allowed: {
    meaning: 'The host resolves to an address that webhooks may not reach, such as a private one.',
    remedy: 'Give the host a public address; every address its name resolves to must be public.',
  },
  http_not_allowed: {
    meaning: 'The URL is plain http, which the operator of this service does not allow, or no longer.',
    remedy: 'Register an https URL in its place; until then every attempt fails with this code.',
  },
  connect_refused: {
    meaning: 'Nothing accepts connections at the address and port of the URL.',
    remedy: 'Start the receiver, and open its port to the outside.',
  },
  connect_failed: {
    meaning: 'No route leads to the address of the URL.',
    remedy: 'Check the address, routing and firewalls in front of the receiver.',
  },
  connect_timeout: {
    meaning: 'The connection, TLS included, was not made in time.',
    remedy: 'Check that no firewall drops packets and that the receiver keeps up.',
  },
  proxy_unreachable: {
    meaning: 'The proxy that this service sends through could not be reached.',
    remedy: 'Nothing on your side; the operator of this service looks after the proxy.',
  },
  proxy_refused: {
    meaning:
      'The proxy that this service sends through refused to connect to the host of the URL, such as for a private address.',
    remedy: 'Give the host a public address; if it has one, ask the operator of this service.',
  },
  tls_failed: {
    meaning:
      'The TLS handshake failed: the certificate is expired, self-signed or for another name, or there is no TLS.',
    remedy: 'Serve a valid certificate for this host, with its intermediates.',
  },
  reset: {
    meaning: 'The connection was closed before a status arrived.',
    remedy:
      'Look for a crash, a restart or a proxy that closes connections early; keep idle connections for 2 s or longer.',
  },
  timeout: {
    meaning: 'No status arrived before the deadline of the attempt.',
    remedy: 'Answer 2xx at once and process the event afterwards.',
  },
  redirect: {
    meaning: 'The receiver answered with a redirect; redirects are never followed.',
    remedy: 'Register the final URL.',
  },
  invalid_response: {
    meaning: 'What came back does not begin with a status of HTTP/1.1.',
    remedy: 'Check that an HTTP/1.1 server listens at the URL, and what stands in front of it.',
  },
  worker_crashed: {
    meaning: 'The sending process died several times while it made this attempt.',
    remedy: 'Nothing on your side; the operator of this service finds the cause in its logs.',
  },
  invalid_request: {
    meaning: 'No request could be made from the URL.',
    remedy: 'Register the webhook again with a plain URL.',
  },
  aborted: { meaning: 'The attempt was cut off by the sender.', remedy: 'Nothing; it is made again.' },
  closed: { meaning: 'The sender was shutting down.', remedy: 'Nothing; the attempt is made again.' },
  unknown: {
    meaning: 'The attempt failed for a reason that is not known.',
    remedy: 'Check the receiver; if it looks well, ask the operator of this service.',
  },
  'http_<status>': {
    meaning: 'The receiver answered with this status, which is not 2xx.',
    remedy:
      'Answer 2xx once the event is taken over; the recorded answer and your logs say why not. A 401 mostly means that it verifies with another secret.',
  },
};

/** Meaning and remedy of any code, `http_<status>` included. */
export function adviceFor(code: string): FailureAdvice {
  return Object.hasOwn(failures, code) ? failures[code as keyof typeof failures] : failures['http_<status>'];
}
