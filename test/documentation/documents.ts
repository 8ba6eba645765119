import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What users read, by its path in the repository: the text of README.md, CHANGELOG.md and docs/. */
export const documents: ReadonlyMap<string, string> = new Map(
  ['README.md', 'CHANGELOG.md', ...readdirSync(path.join(root, 'docs')).map((name) => `docs/${name}`)]
    .filter((name) => name.endsWith('.md'))
    .map((name) => [name, readFileSync(path.join(root, name), 'utf8')]),
);

/** The text of one of them. */
export function documentText(name: string): string {
  const text = documents.get(name);
  if (text === undefined) throw new Error(`there is no ${name}`);
  return text;
}

/** A fenced block of code in a document. */
export interface CodeBlock {
  /** The document's path in the repository. */
  readonly document: string;
  /** The line of its opening fence, counted from 1. */
  readonly line: number;
  /** What stands behind the opening fence. */
  readonly language: string;
  readonly code: string;
}

/** Every fenced block of the documents, in order. */
export const codeBlocks: readonly CodeBlock[] = [...documents].flatMap(([document, text]) =>
  [...text.matchAll(/^```([^\n]*)\n(.*?)^```$/gms)].map(({ index, 1: language = '', 2: code = '' }) => ({
    document,
    line: text.slice(0, index).split('\n').length,
    language,
    code,
  })),
);
