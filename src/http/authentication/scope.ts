import { GatewayError } from '../../errors.ts';
import { accountScopes, type Principal, type Scope } from '../operation.ts';

/**
 * Makes sure that whoever calls may do so.
 * @throws GatewayError `insufficient_scope`, naming the scope, also in `www-authenticate` (RFC 6750, section 3.1)
 */
export function requireScope({ scopes = accountScopes }: Principal, scope: Scope): void {
  if (scopes.includes(scope)) return;
  throw new GatewayError('insufficient_scope', `This needs an API key with the scope ${scope}`, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
