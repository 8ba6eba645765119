import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { CORE_SCHEMA, load } from 'js-yaml';
import { root } from '../package/tarball.ts';
import { codeBlocks, documents, documentText } from './documents.ts';

const run = promisify(execFile);

/** How a block is tried: compiled, run or parsed by the tests in this folder and in test/package, or shown only. */
const languages = [
  'ts',
  'js',
  'sh',
  'json',
  'yaml',
  'python',
  'go',
  'java',
  'php',
  'rust',
  'console',
  'mongosh',
  'text',
];

/** What a link of Markdown leads to, where it leads to a file or a heading. */
interface Link {
  readonly document: string;
  readonly target: string;
}

const links: Link[] = [...documents].flatMap(([document, text]) =>
  [...text.replace(/^```.*?^```$/gms, '').matchAll(/\]\(([^)]+)\)/g)]
    .map(([, target = '']) => ({ document, target }))
    .filter(({ target }) => !/^https?:/.test(target)),
);

/** The anchors that GitHub and npm give to the headings of a document. */
function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

describe('the documentation', () => {
  it('has a README of 250 lines at most', () => {
    expect(documentText('README.md').split('\n').length).to.be.at.most(250);
  });

  it('has code blocks only in languages that the tests know', () => {
    const unknown = codeBlocks.filter(({ language }) => !languages.includes(language));
    expect(unknown.map(({ document, line, language }) => `${document}:${line} ${language}`)).to.deep.equal([]);
  });

  it('does not mention interface.md, which its readers do not have', () => {
    for (const [document, text] of documents) expect(text, document).to.not.include('interface.md');
  });

  for (const { document, target } of links) {
    it(`has what ${document} links to: ${target}`, () => {
      const [file = '', anchor] = target.split('#');
      const name = file === '' ? document : path.join(path.dirname(document), file);
      expect(existsSync(path.join(root, name)), name).to.equal(true);
      if (anchor !== undefined) expect(anchors(documentText(name))).to.include(anchor);
    });
  }

  it('is in the tarball with what it links to', () => {
    const { files } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { files: string[] };
    expect(files).to.include.members(['docs/*.md', 'docs/*.png', 'openapi.yaml', 'CHANGELOG.md']);
    const packed = /^(docs\/[^/]+\.(md|png)|openapi\.yaml|(CHANGELOG|README)\.md|LICENSE)$/;
    const targets = links.map(({ document, target }) => path.join(path.dirname(document), target.split('#')[0] ?? ''));
    const missing = targets.filter((target) => !packed.test(target) && !['.', 'docs'].includes(target));
    expect(missing).to.deep.equal([]);
  });

  it('names only scripts that package.json has', () => {
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const [document, text] of documents) {
      for (const [, name = ''] of text.matchAll(/npm run (?:--silent )?([\w:]+)/g)) {
        expect(scripts, document).to.have.property(name);
      }
    }
  });

  for (const { document, line, language, code } of codeBlocks) {
    const place = `${document}:${line}`;
    if (language === 'json') it(`has valid JSON at ${place}`, () => void expect(() => JSON.parse(code)).to.not.throw());
    if (language === 'yaml')
      it(`has valid YAML at ${place}`, () => void expect(() => load(code, { schema: CORE_SCHEMA })).to.not.throw());
    if (language === 'sh') it(`has a valid shell script at ${place}`, () => run('bash', ['-n', '-c', code]));
  }
});
