import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { CORE_SCHEMA, load } from 'js-yaml';
import { root } from '../package/tarball.ts';
import { codeBlocks, documents, documentText } from './documents.ts';
import { withoutGeneratedParts } from './generated.ts';
import { commandTables } from './reference.ts';

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

/** README.md and the pages, without what is generated. */
const written = [...documents]
  .filter(([name]) => name !== 'CHANGELOG.md')
  .map(([name, text]) => [name, withoutGeneratedParts(text).trimEnd()] as const);

const linesOf = (name: string) => documentText(name).split('\n');

/** The lines of src that somebody wrote. */
function sourceLines(): number {
  const src = path.join(root, 'src');
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' });
  const written = files.filter((name) => /\.(tsx?|css)$/.test(name) && name !== 'api.d.ts');
  return written.reduce((sum, name) => sum + (readFileSync(path.join(src, name), 'utf8').match(/\n/g)?.length ?? 0), 0);
}

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
  it('has a README of 150 lines at most, and a changelog of 40 for each version', () => {
    expect(linesOf('README.md').length).to.be.at.most(150);
    for (const version of documentText('CHANGELOG.md').split(/^## /m)) {
      expect(version.split('\n').length).to.be.at.most(40);
    }
  });

  it('has 30,000 words at most, besides what is generated and the bars of tables', () => {
    const counts = written.map(([name, text]) => [name, text.match(/\S*[\p{L}\p{N}]\S*/gu)?.length ?? 0] as const);
    const total = counts.reduce((sum, [, count]) => sum + count, 0);
    console.log(`      ${counts.map(([name, count]) => `${name} ${count}`).join(', ')}; in all ${total}`);
    expect(total).to.be.at.most(30_000);
  });

  it('has 50 commands and 62,800 lines of sources at most behind it', () => {
    const commands = commandTables().match(/^###+ /gm)?.length ?? 0;
    const lines = sourceLines();
    console.log(`      ${commands} commands, ${lines} lines of src`);
    expect(commands).to.be.at.most(50);
    expect(lines).to.be.at.most(62_800);
  });

  for (const [name, text] of written) {
    it(`says in short what ${name} is about, in under 300 lines of at most 120 characters`, () => {
      const lines = text.split('\n');
      expect(lines.length).to.be.below(300);
      if (name !== 'README.md') expect(lines[2]).to.match(/^\*\*In short\.\*\* /);
      const prose = text.replace(/^```.*?^```$/gms, '').split('\n');
      expect(prose.filter((line) => line.length > 120 && !line.startsWith('|'))).to.deep.equal([]);
    });
  }

  it('has tables whose rows have one number of cells, below a header', () => {
    for (const [name, text] of documents) {
      const tables = text.replace(/^```.*?^```$/gms, '').match(/(?:^\|.*\n)+/gm) ?? [];
      for (const table of tables) {
        const rows = table.trimEnd().split('\n');
        const cells = rows.map((row) => row.replace(/`[^`]*`/g, '').split(/(?<!\\)\|/).length);
        expect(rows[1], `${name}: ${rows[0]}`).to.match(/^\|(?: ?-{3} ?\|)+$/);
        expect(new Set(cells).size, `${name}: ${rows[0]}`).to.equal(1);
      }
    }
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
