import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gunzipSync, gzipSync } from 'node:zlib';
import { GatewayError } from '../errors.ts';
import { readPageFile } from './read-page.ts';

/** One file of a page, ready to be sent. */
export interface PageFile {
  readonly type: string;
  readonly cacheControl: string;
  readonly gzipped: Buffer;
}

/** The file at a path below that of its page: `/`, `/assets/main-3f2a….js`. */
export type FindFile = (path: string) => PageFile | undefined;

const forever = 'public, max-age=31536000, immutable';
const asksAgain = 'no-cache';

/** The pages. */
type PageName = 'main' | 'reference';

/**
 * Reads a page that has been built: its script and its style.
 * @throws GatewayError `invalid_options` when it has not been built
 */
export function loadFiles(name: PageName, documentOf: (assets: Assets) => string): FindFile {
  const [script, style] = [readAsset(name, 'js', 'javascript'), readAsset(name, 'css', 'css')];
  const html = gzipSync(documentOf({ script: script.name, style: style.name }), { level: 9 });
  return (path) => {
    if (path === '/') return { type: 'text/html; charset=utf-8', cacheControl: asksAgain, gzipped: html };
    // during a rollout the document may come from one version and its script from another: any hash will do
    const asset = [script, style].find(({ paths }) => paths.test(path));
    if (!asset) return undefined;
    const { type, gzipped } = asset;
    return { type, cacheControl: path === `/assets/${asset.name}` ? forever : asksAgain, gzipped };
  };
}

/** A file with this value in it. */
export function jsonFile(value: unknown): PageFile {
  const gzipped = gzipSync(JSON.stringify(value), { level: 9 });
  return { type: 'application/json; charset=utf-8', cacheControl: asksAgain, gzipped };
}

/** The script or the style of a page: its name with its hash, as `main-3f2a….js`, and its paths whatever the hash. */
function readAsset(page: PageName, ending: 'js' | 'css', type: string) {
  let gzipped: Buffer;
  try {
    gzipped = readPageFile(`${page}.${ending}`);
  } catch (cause) {
    throw new GatewayError('invalid_options', 'dashboard: its page has not been built; run npm run build', {
      param: 'dashboard',
      cause,
    });
  }
  const hash = createHash('sha256').update(gzipped).digest('hex').slice(0, 12);
  const paths = new RegExp(`^/assets/${page}-[0-9a-f]{12}\\.${ending}$`);
  return { name: `${page}-${hash}.${ending}`, paths, type: `text/${type}; charset=utf-8`, gzipped };
}

/** Sends a file of a page, compressed with gzip where the client accepts that. */
export function sendFile(req: IncomingMessage, res: ServerResponse, file: PageFile): void {
  const isGzipped = /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''));
  const body = isGzipped ? file.gzipped : gunzipSync(file.gzipped);
  if (isGzipped) res.setHeader('content-encoding', 'gzip');
  res.setHeader('vary', 'accept-encoding');
  res.setHeader('cache-control', file.cacheControl);
  res.setHeader('content-type', file.type);
  res.setHeader('content-length', body.length);
  res.end(body);
}

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%234f46e5'/%3E%3Cpath d='M4 8h5m0 0L6.5 5.5M9 8l-2.5 2.5M12 4.5v7' stroke='white' stroke-width='1.5' fill='none' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** The files that a document names, below `assets/`. */
interface Assets {
  readonly script: string;
  readonly style: string;
}

/** What {@link pageDocument} depends on. */
interface PageSettings {
  /** Whether the host has sessions, so that the page asks for one before it shows a form. */
  readonly sessions: boolean;
  /** Whether the API reference is beside the page. */
  readonly reference: boolean;
  /** Whether it is counted what accounts use. */
  readonly usage: boolean;
  /** Whether accounts have credits. */
  readonly credits: boolean;
  /** The relative address of the router's mount point: `../`. */
  readonly root: string;
}

function document({ script, style }: Assets, head: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}
<meta name="robots" content="noindex">
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="assets/${style}">
<script type="module" src="assets/${script}"></script>
</head>
<body>
${body}
<noscript>This page needs JavaScript.</noscript>
</body>
</html>
`;
}

/** The HTML of the dashboard. Every URL in it is relative, so that it works below any prefix. */
export function pageDocument(assets: Assets, { sessions, ...settings }: PageSettings): string {
  const head = '<meta name="color-scheme" content="light dark">\n<title>Gateway</title>';
  const data = Object.entries({ 'sign-in': sessions ? 'session' : 'key', ...settings });
  const attributes = data.map(([name, value]) => ` data-${name}="${value}"`).join('');
  return document(assets, head, `<div id="app"${attributes}></div>`);
}

/**
 * The HTML of the API reference.
 * @param root the relative address of the router's mount point: `../../`
 */
export function referenceDocument(assets: Assets, root: string): string {
  const link = '<header class="reference-head"><a href="../">Dashboard</a></header>';
  const main = `<main id="reference" data-root="${root}"></main>`;
  return document(assets, '<title>API reference</title>', `${link}\n${main}`);
}
