import type { UpstreamOptions } from '../options.ts';

/** One provider, as the relay needs it. */
export interface Upstream {
  readonly name: string;
  /** Without a slash at the end. */
  readonly baseUrl: string;
  /** Sent with every request to it; its key among them. */
  readonly headers: Readonly<Record<string, string>>;
}

export function createUpstream(options: UpstreamOptions): Upstream {
  return {
    name: options.name,
    baseUrl: options.baseUrl.replace(/\/+$/, ''),
    headers: options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` },
  };
}
