import type { Principal } from '../http/principal.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { isUnavailableError } from '../mongo/unavailable.ts';
import type { KeyService } from './service.ts';

/** How long a model call waits for the database to check a known key again. Milliseconds. */
const longestCheck = 1_000;
/** How long any other request waits; it needs the rest of its time for its own work. Milliseconds. */
const longestLookUp = 1_500;

export interface AuthenticateKeyDeps {
  readonly keys: Pick<KeyService, 'authenticate' | 'authenticateCached' | 'authenticateInGracePeriod'>;
  readonly database: Pick<DatabaseAccess, 'isUnavailable' | 'run'>;
}

/** Says whose key a token is; `null` if it is unknown, expired or revoked. */
export type AuthenticateKey = (token: string, isModelCall: boolean) => Promise<Principal | null>;

/**
 * Authenticates by keys. While the database is unavailable, model calls continue with keys that were checked within the grace period.
 * Everything else needs the database anyway.
 */
export function createAuthenticateKey({ keys, database }: AuthenticateKeyDeps): AuthenticateKey {
  async function checkAgain(token: string, lastPrincipal: Principal): Promise<Principal | null> {
    try {
      return await database.run(() => keys.authenticate(token), longestCheck);
    } catch (error) {
      if (isUnavailableError(error)) return lastPrincipal;
      throw error;
    }
  }

  return async function authenticateKey(token, isModelCall) {
    const lastPrincipal = isModelCall ? keys.authenticateInGracePeriod(token) : undefined;
    if (lastPrincipal === null || (lastPrincipal && database.isUnavailable)) return lastPrincipal;
    const cached = keys.authenticateCached(token);
    if (cached !== undefined) return cached;
    return lastPrincipal
      ? checkAgain(token, lastPrincipal)
      : database.run(() => keys.authenticate(token), longestLookUp);
  };
}
