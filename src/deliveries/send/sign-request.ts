import type { InternalAxiosRequestConfig } from 'axios';
import type { RequestConfig } from '../../outbound/client.ts';

/** The signature headers of a body. Holds the secrets, so that no configuration of axios does, which anybody might print. */
export type SignRequest = (body: Buffer) => Record<string, string>;

/** A delivery's request. */
export interface SignedRequest extends RequestConfig {
  readonly data: Buffer;
  readonly sign: SignRequest;
}

/**
 * Signs a request as it is about to be sent. Added before any other interceptor it runs after them, so that what is signed is
 * what is sent.
 */
export function signRequest(config: InternalAxiosRequestConfig): InternalAxiosRequestConfig {
  const { data, sign } = config as InternalAxiosRequestConfig & SignedRequest;
  config.headers.set(sign(data));
  return config;
}
