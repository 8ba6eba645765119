import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { GatewayError } from '../errors.ts';
import { pageDocument } from './document.ts';

/** One file of the page, ready to be sent. */
export interface PageFile {
  readonly type: string;
  readonly cacheControl: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
}

/** The file at a path below the dashboard's own: `/`, `/assets/main-3f2a….js`. */
export type FindFile = (path: string) => PageFile | undefined;

/** Where `npm run build` puts the page; the path is the same from `src` and from `dist`. */
const folder = new URL('../../dist/dashboard/page/', import.meta.url);

const forever = 'public, max-age=31536000, immutable';
const asksAgain = 'no-cache';

function toFile(type: string, cacheControl: string, bytes: Buffer): PageFile {
  return { type: `${type}; charset=utf-8`, cacheControl, bytes, gzipped: gzipSync(bytes, { level: 9 }) };
}

function read(name: string): Buffer {
  try {
    return readFileSync(new URL(name, folder));
  } catch (cause) {
    throw new GatewayError('invalid_options', 'dashboard: its page has not been built; run npm run build', {
      param: 'dashboard',
      cause,
    });
  }
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 12);
}

/** `/assets/main-3f2a….js` → `main.js`, whatever the hash. */
function plainName(path: string): string | undefined {
  return /^\/assets\/(\w+)-[0-9a-f]{12}(\.\w+)$/.exec(path)?.slice(1).join('');
}

/**
 * Reads the built page.
 * @param sessions whether the host has sessions
 * @throws GatewayError `invalid_options` when it has not been built
 */
export function loadFiles(sessions: boolean): FindFile {
  const script = read('main.js');
  const style = read('main.css');
  const names = { script: `main-${hashOf(script)}.js`, style: `main-${hashOf(style)}.css` };
  const document = Buffer.from(pageDocument({ ...names, sessions }));
  const files = new Map([
    ['/', toFile('text/html', asksAgain, document)],
    [`/assets/${names.script}`, toFile('text/javascript', forever, script)],
    [`/assets/${names.style}`, toFile('text/css', forever, style)],
  ]);
  // during a rollout the document may come from one version and its script from another
  const otherVersions = new Map([
    ['main.js', toFile('text/javascript', asksAgain, script)],
    ['main.css', toFile('text/css', asksAgain, style)],
  ]);
  return (path) => files.get(path) ?? otherVersions.get(plainName(path) ?? '');
}

/** Sends a file of the page, compressed with gzip where the client accepts that. */
export function sendFile(req: IncomingMessage, res: ServerResponse, file: PageFile): void {
  const isGzipped = /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''));
  const body = isGzipped ? file.gzipped : file.bytes;
  if (isGzipped) res.setHeader('content-encoding', 'gzip');
  res.setHeader('vary', 'accept-encoding');
  res.setHeader('cache-control', file.cacheControl);
  res.setHeader('content-type', file.type);
  res.setHeader('content-length', body.length);
  res.end(body);
}
