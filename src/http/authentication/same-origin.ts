import type { IncomingMessage } from 'node:http';
import { hostOf } from '../target.ts';

/**
 * Whether a request was made by a page of the origin it goes to, as far as browsers tell. They say it themselves in
 * `sec-fetch-site` (Fetch Metadata, W3C); one that does not is judged by `origin`, which every browser sends with whatever
 * is neither GET nor HEAD. An address typed in by hand counts for GET and HEAD, which change nothing.
 */
export function isSameOrigin(req: Pick<IncomingMessage, 'method' | 'url' | 'headers'>): boolean {
  const { method = 'GET', headers } = req;
  const reading = method === 'GET' || method === 'HEAD';
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || (reading && site === 'none');
  if (headers.origin === undefined) return reading;
  return URL.canParse(headers.origin) && new URL(headers.origin).host === hostOf(req);
}
