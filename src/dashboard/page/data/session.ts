import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Api } from './api.ts';
import type { DescribedCode, Session } from './types.ts';

/** Who is signed in, and the API on their behalf. */
export interface SessionValue extends Session {
  readonly api: Api;
  /** Every code of an error and what it means. */
  readCodes(signal: AbortSignal): Promise<readonly DescribedCode[]>;
  signOut(): void;
  /** For an answer that says that the key or the session is no longer valid. */
  onUnauthorized(): void;
}

export const SessionContext = createContext<SessionValue | null>(null);

export function useSession(): SessionValue {
  const session = useContext(SessionContext);
  if (!session) throw new Error('no user is signed in');
  return session;
}

export function useApi(): Api {
  return useSession().api;
}
