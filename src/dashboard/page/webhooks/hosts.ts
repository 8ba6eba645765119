import type { WebhookSummary } from '../api/types.ts';

/** A URL in parts, so that the one that tells webhooks apart can stand out. */
export function splitUrl(url: string): { scheme: string; host: string; rest: string } {
  const { protocol, host, pathname, search } = new URL(url);
  return { scheme: `${protocol}//`, host, rest: `${pathname}${search}`.replace(/^\/$/, '') };
}

/** What each webhook is called in lists, by id. */
export function hostsOf(webhooks: readonly WebhookSummary[]): ReadonlyMap<string, string> {
  return new Map(
    webhooks.map(({ id, url }) => {
      const { scheme, host, rest } = splitUrl(url);
      return [id, `${scheme}${host}${rest}`];
    }),
  );
}
