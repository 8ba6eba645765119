import { useRead } from '../data/query.ts';
import type { Webhook } from '../data/types.ts';
import type { Status } from '../elements/badge.tsx';

/** The account's webhooks, as many as one page holds. */
export function useWebhooks(after?: string) {
  return useRead('/v1/webhooks', { query: { limit: 100, after } });
}

/** How a webhook stands, in a word. */
export function webhookStatus({ active, disabled, health }: Webhook): Status {
  if (disabled) return { shape: 'bad', words: 'Disabled' };
  if (!active) return { shape: 'paused', words: 'Paused' };
  if (health.state === 'healthy' && lastFailed(health)) return { shape: 'uneasy', words: 'Last one failed' };
  return healthWords[health.state];
}

const healthWords: Readonly<Record<Webhook['health']['state'], Status>> = {
  healthy: { shape: 'good', words: 'Healthy' },
  failing: { shape: 'bad', words: 'Failing' },
  idle: { shape: 'idle', words: 'Idle' },
};

/** Whether the latest thing that happened to it was a failure; it takes more of them before it counts as failing. */
export function lastFailed({ last_success_at, last_failure }: Webhook['health']): boolean {
  return last_failure !== null && (last_success_at === null || last_success_at < last_failure.at);
}

/** A URL in parts, so that the one that tells webhooks apart can stand out; without the `/` that stands for no path. */
export function urlParts(url: string): { scheme: string; host: string; rest: string } {
  const { protocol, host, pathname, search } = new URL(url);
  return { scheme: `${protocol}//`, host, rest: `${pathname}${search}`.replace(/^\/$/, '') };
}

/** The URL, with what matters most of it set off. */
export function Url({ url, bold = false }: { url: string; bold?: boolean }) {
  const { scheme, host, rest } = urlParts(url);
  return (
    <>
      <span class="muted">{scheme}</span>
      {bold ? <b>{host}</b> : host}
      <span class="muted">{rest}</span>
    </>
  );
}

/** A URL as lists show it. */
export function shortUrl(url: string): string {
  return Object.values(urlParts(url)).join('');
}
