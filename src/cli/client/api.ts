import createClient, { type Client } from 'openapi-fetch';
import type { components, paths } from '../../api.d.ts';
import { readVersion } from '../../version.ts';
import { CommandFailure, PassingFailure } from '../terminal/command-failure.ts';
import { refusalOf } from './refusal.ts';
import { unreachable } from './unreachable.ts';

/** The types of openapi.yaml, by name. */
export type Schemas = components['schemas'];
export type Api = Client<paths, 'application/json'>;

/** Where the gateway is, and the key to use it with. */
export interface Access {
  /** Without `/v1`, without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string;
}

/** Milliseconds to wait for an answer; a resend may take 35 s. */
const requestTimeout = 60_000;

function isJson(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('application/json') ?? false;
}

/**
 * The API of a gateway somewhere. No redirect is followed: the key goes where the user said and nowhere else.
 * @returns a client whose calls either answer with data or throw a CommandFailure that says what to do
 */
export function createApiClient({ baseUrl, apiKey }: Access): Api {
  return createClient<paths, 'application/json'>({
    baseUrl,
    headers: { authorization: `Bearer ${apiKey}`, 'user-agent': `express-model-gateway/${readVersion()}` },
    redirect: 'manual',
    async fetch(request) {
      const response = await fetch(request, { signal: AbortSignal.timeout(requestTimeout) }).catch((error) => {
        throw unreachable(error, baseUrl);
      });
      if (response.ok && isJson(response)) return response;
      throw await refusalOf(response, baseUrl);
    },
  });
}

/** What a call answers with: the client's other branch, an error, has been thrown already. */
export async function dataOf<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  try {
    return (await call).data as Data;
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new PassingFailure('The answer was cut off, or is not JSON.\nTry again.', 1, { cause: error });
  }
}
