import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PageFile } from './files.ts';

/** Sends a file of the page, gzipped to whoever takes that. */
export function sendFile(req: IncomingMessage, res: ServerResponse, file: PageFile): void {
  const squeezed = /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''));
  const body = squeezed ? file.gzipped : file.bytes;
  if (squeezed) res.setHeader('content-encoding', 'gzip');
  res.setHeader('vary', 'accept-encoding');
  res.setHeader('cache-control', file.cacheControl);
  res.setHeader('content-type', file.type);
  res.setHeader('content-length', body.length);
  res.end(body);
}
