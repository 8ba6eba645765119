import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { sharedSpec } from './spec.ts';

/** openapi.yaml in one of its formats, for a router mounted at one place. */
export interface ServedDocument {
  readonly type: string;
  readonly bytes: Buffer;
  /** A strong validator (RFC 9110, section 8.8.3). */
  readonly etag: string;
}

export type DocumentFormat = 'json' | 'yaml';

const description = 'This gateway. Every path starts with /v1.';

function toDocument(type: string, text: string): ServedDocument {
  const bytes = Buffer.from(text);
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return { type, bytes, etag };
}

function asYaml(text: string, url: string): string {
  // JSON is YAML, so that no path needs escapes of another kind
  const servers = `servers:\n  - url: ${JSON.stringify(url)}\n    description: ${description}\n`;
  return text.replace(/^servers:\n(?: .*\n)+/m, () => servers);
}

/** Makes the function that gives openapi.yaml as a client at `mountPath` needs it: `/` or `/api/llm`. */
export function createServedDocuments(): (format: DocumentFormat, mountPath: string) => ServedDocument {
  const documents = new Map<DocumentFormat, { readonly mountPath: string; readonly document: ServedDocument }>();
  let json: string | undefined;
  const yaml = readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');

  function make(format: DocumentFormat, url: string): ServedDocument {
    if (format === 'yaml') return toDocument('application/yaml', asYaml(yaml, url));
    json ??= JSON.stringify({ ...sharedSpec(), servers: undefined });
    const servers = JSON.stringify([{ url, description }]);
    return toDocument('application/json', `{"servers":${servers},${json.slice(1)}`);
  }

  return function documentFor(format, mountPath) {
    const last = documents.get(format);
    if (last?.mountPath === mountPath) return last.document;
    const document = make(format, mountPath);
    // one of each is kept: most routers are mounted once, and a path with parameters has any number of them
    documents.set(format, { mountPath, document });
    return document;
  };
}
