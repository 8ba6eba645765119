import { useCallback, useEffect, useState } from 'preact/hooks';
import { ApiError } from '../api/error.ts';
import { createApi } from '../api/operations.ts';
import type { Session } from '../api/types.ts';
import { firstView } from '../shell/views.ts';
import { keyStore } from './key-store.ts';
import type { SessionValue } from './session.ts';

/** The state of signing in. */
type SignInState =
  | { readonly kind: 'asking' }
  | { readonly kind: 'signed_out'; readonly message?: string }
  | { readonly kind: 'unreachable'; readonly error: ApiError }
  | { readonly kind: 'signed_in'; readonly session: SessionValue };

export interface SignIn {
  readonly state: SignInState;
  /** Rejects with an ApiError when the key is not good. */
  withKey(key: string): Promise<void>;
  again(): void;
}

/** @throws ApiError where there is nothing to show to these scopes */
function requireView({ scopes }: Session): void {
  if (firstView(scopes)) return;
  const message = `There is nothing to see here for the scopes ${scopes.join(', ')}. Use a key with the scope webhooks.`;
  throw new ApiError(message, { status: 403, code: 'insufficient_scope' });
}

/**
 * Signs in by the key that this tab has, else by the host's session.
 * @param hostSessions whether the host may know who is signed in
 */
export function useSignIn(hostSessions: boolean): SignIn {
  const [state, setState] = useState<SignInState>({ kind: 'asking' });

  const enter = useCallback(async (key: string | null) => {
    const api = createApi(key);
    const session = await api.session();
    requireView(session);
    const leave = (message?: string) => {
      keyStore.clear();
      setState({ kind: 'signed_out', ...(message && { message }) });
    };
    if (key !== null) keyStore.write(key);
    setState({
      kind: 'signed_in',
      session: {
        ...session,
        api,
        signOut: () => leave(),
        onUnauthorized: () => leave('You are not signed in any more: the key or the session has ended.'),
      },
    });
  }, []);

  const begin = useCallback(async () => {
    const key = keyStore.read();
    if (key === null && !hostSessions) return setState({ kind: 'signed_out' });
    setState({ kind: 'asking' });
    try {
      await enter(key);
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) return setState({ kind: 'unreachable', error });
      keyStore.clear();
      setState({ kind: 'signed_out', ...(key !== null && { message: 'The key that was used here is good no more.' }) });
    }
  }, [enter, hostSessions]);

  useEffect(() => void begin(), [begin]);
  return { state, withKey: enter, again: () => void begin() };
}
