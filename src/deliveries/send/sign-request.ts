import type { InternalAxiosRequestConfig } from 'axios';
import type { RequestConfig } from '../../outbound/client.ts';

/** Makes the signature headers of a body. It keeps the secrets out of axios' configuration, which might be printed. */
export type SignRequest = (body: Buffer) => Record<string, string>;

/** A delivery's request. */
export interface SignedRequest extends RequestConfig {
  readonly data: Buffer;
  readonly sign: SignRequest;
}

/**
 * Signs a request right before it is sent. axios runs the interceptor that was added first last, so nothing changes the body
 * after it is signed.
 */
export function signRequest(config: InternalAxiosRequestConfig): InternalAxiosRequestConfig {
  const { data, sign } = config as InternalAxiosRequestConfig & SignedRequest;
  config.headers.set(sign(data));
  return config;
}
