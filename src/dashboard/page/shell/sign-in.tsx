import { useCallback, useEffect, useState } from 'preact/hooks';
import { createApiClient, readCodes, readSession } from '../data/api.ts';
import { ApiError } from '../data/error.ts';
import { useAction } from '../data/query.ts';
import type { SessionValue } from '../data/session.ts';
import { Button } from '../elements/button.tsx';
import { TextField, verbatim } from '../elements/form.tsx';
import { Logo } from '../elements/icons.tsx';
import { firstView } from './views.ts';

/** The state of signing in. */
type SignInState =
  | { readonly kind: 'asking' }
  | { readonly kind: 'signed_out'; readonly message?: string }
  | { readonly kind: 'unreachable'; readonly error: ApiError }
  | { readonly kind: 'signed_in'; readonly session: SessionValue };

/**
 * Signs in by the key that this tab has, else by the host's session.
 * @param hostSessions whether the host may know who is signed in
 */
export function useSignIn(hostSessions: boolean) {
  const [state, setState] = useState<SignInState>({ kind: 'asking' });

  const enter = useCallback(async (key: string | null) => {
    const session = await readSession(key);
    const { scopes } = session;
    if (!firstView(scopes)) {
      const message = `There is nothing to see here for the scopes ${scopes.join(', ')}. Use a key with the scope webhooks.`;
      throw new ApiError(message, { status: 403, code: 'insufficient_scope' });
    }
    const leave = (message?: string) => {
      keyStore.clear();
      setState({ kind: 'signed_out', ...(message && { message }) });
    };
    if (key !== null) keyStore.write(key);
    setState({
      kind: 'signed_in',
      session: {
        ...session,
        api: createApiClient(key),
        readCodes: (signal) => readCodes(key, signal),
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

/** The key stays with this tab: never in a URL, gone when the tab is closed. */
const keyStore = {
  read: (): string | null => sessionStorage.getItem('gateway-api-key'),
  write: (key: string): void => sessionStorage.setItem('gateway-api-key', key),
  clear: (): void => sessionStorage.removeItem('gateway-api-key'),
};

interface Props {
  readonly hostSessions: boolean;
  readonly message?: string | undefined;
  readonly onKey: (key: string) => Promise<void>;
}

export function SignInView({ hostSessions, message, onKey }: Props) {
  const [key, setKey] = useState('');
  const signIn = useAction(async () => onKey(key.trim()));
  const refusal =
    signIn.error?.status === 401 ? 'This key is not known, has expired or has been revoked.' : signIn.error?.message;

  return (
    <main class="sign-in">
      <form
        class="card sign-in-card"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn.run();
        }}
      >
        <Logo />
        <h1>Sign in</h1>
        <p class="muted">
          {hostSessions
            ? 'You are not signed in here. Sign in as usual and reload this page, or use an API key.'
            : 'See what you use, what your webhooks received and why something failed.'}
        </p>
        {message && <p class="note">{message}</p>}
        <TextField
          label="API key"
          hint="It stays in this tab, and is forgotten when you close it."
          error={refusal}
          input={{ ...verbatim, type: 'password', required: true, placeholder: 'emg_…' }}
          value={key}
          onText={setKey}
        />
        <Button kind="primary" type="submit" busy={signIn.running}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
