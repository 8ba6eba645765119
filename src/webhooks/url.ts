import { isIP } from 'node:net';
import { type ErrorCode, refuse } from '../errors.ts';
import { isAllowedAddress, type Networks } from '../outbound/addresses.ts';

export interface UrlRules {
  /** Whether plain http is allowed. */
  readonly allowHttp: boolean;
  /** Private networks that webhooks may reach. */
  readonly networks: Networks;
}

const lengthLimit = 2048;

function refuseUrl(code: ErrorCode, reason: string): never {
  refuse(code, 'url', reason);
}

/** The URL is stored unchanged, so it must be one that every parser reads alike. */
function parse(text: string): URL {
  if (typeof text !== 'string') refuseUrl('invalid_type', 'must be a string');
  if (text.length > lengthLimit) refuseUrl('invalid_value', `must have at most ${lengthLimit} characters`);
  if (/[\s\\\p{Control}\p{Surrogate}]/u.test(text)) {
    refuseUrl('invalid_value', 'must not contain spaces, control characters or backslashes; percent-encode them');
  }
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i.test(text) || !URL.canParse(text)) {
    refuseUrl('invalid_value', 'must be an absolute URL such as https://example.com/webhooks');
  }
  return new URL(text);
}

/** Checks literal addresses, in any spelling, and localhost. Other names are checked when they are resolved for a connection. */
function checkHost({ hostname }: URL, { networks }: UrlRules): void {
  // URL has normalised every spelling of an address (2130706433, 0x7f.1)
  const host = hostname.replace(/^\[|\]$|\.+$/g, '');
  if (host === '') refuseUrl('invalid_value', 'must name a host, such as example.com');
  const addresses = /(^|\.)localhost$/.test(host) ? ['127.0.0.1', '::1'] : isIP(host) === 0 ? [] : [host];
  if (addresses.length === 0 || addresses.some((address) => isAllowedAddress(address, networks))) return;
  refuseUrl('url_not_allowed', 'must lead to a public address: this service does not send to private or reserved ones');
}

/**
 * Checks that a webhook may have this URL.
 * @throws GatewayError `invalid_type` or `invalid_value` if it is no usable URL, `url_not_allowed` if the rules forbid it; `param`
 *   is `url`
 */
export function checkWebhookUrl(text: string, rules: UrlRules): void {
  const url = parse(text);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && rules.allowHttp)) {
    if (rules.allowHttp) refuseUrl('url_not_allowed', 'must be an https or http URL');
    refuseUrl('url_not_allowed', 'must be an https URL: this service does not send to plain http');
  }
  const authority = /^[^:]*:\/\/([^/?#]*)/.exec(text)?.[1] ?? '';
  if (authority.includes('@')) {
    const reason = 'must not contain a user name or password; deliveries are authenticated by their signature';
    refuseUrl('invalid_value', reason);
  }
  if (url.port === '0') {
    refuseUrl('invalid_value', 'must not have port 0, where nothing can listen; name the port of your receiver');
  }
  if (text.includes('#')) refuseUrl('invalid_value', 'must not contain a fragment; leave out # and what follows');
  checkHost(url, rules);
}
