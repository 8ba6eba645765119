import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { generator as goGenerator } from '../clients/go/generator.ts';
import { goOptions } from '../clients/go-openapi-generator/generator.ts';
import { javaOptions } from '../clients/java/generator.ts';
import { version as openapiGenerator } from '../clients/openapi-generator.ts';
import { pythonOptions } from '../clients/python/generator.ts';
import { urllib3Options } from '../clients/python-urllib3/generator.ts';
import { rustOptions } from '../clients/rust/generator.ts';
import { typescriptFetchOptions } from '../clients/typescript/generator.ts';
import { root } from '../package/tarball.ts';
import { type CodeBlock, codeBlocks } from './documents.ts';
import { blockWith } from './programs.ts';

const [page, compiled] = ['docs/clients.md', 'docs/clients-go-java-rust.md'] as const;
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const { devDependencies } = JSON.parse(read('package.json'));

/** The command of a block that begins so, as its words; its places in files are left out. */
function wordsOf({ code }: CodeBlock, command: string): string[] {
  const line = code
    .replaceAll('\\\n', '')
    .split('\n')
    .find((one) => one.startsWith(`${command} `));
  const words = (line ?? '').slice(command.length).trim().split(/\s+/);
  return words.filter((word, i) => {
    const isPlace = ['-i', '-o', '--path'].includes(word) || ['-i', '-o', '--path'].includes(words[i - 1] ?? '');
    return word !== '' && !isPlace;
  });
}

describe('The commands of the pages about clients', () => {
  const shells = codeBlocks.filter(
    ({ document, language }) => (document === page || document === compiled) && language === 'sh',
  );

  for (const [name, document, text, options] of [
    ['TypeScript, by openapi-generator', page, '-g typescript-fetch', typescriptFetchOptions],
    ['Go, by openapi-generator', compiled, '-g go', goOptions],
    ['Java', compiled, '-g java', javaOptions],
    ['Python, by openapi-generator', page, '-g python', urllib3Options],
    // Cargo.lock of the tests needs a version that no release changes
    ['Rust', compiled, '-g rust', rustOptions.map((option) => option.replace('packageVersion=0.0.0,', ''))],
  ] as const) {
    it(`have the options that test/clients generates with, for ${name}`, () => {
      expect(wordsOf(blockWith(document, 'sh', text), 'openapi-generator-cli generate')).to.have.members(options);
    });
  }

  it('have the options that test/clients generates with, for Python by openapi-python-client', () => {
    const block = blockWith(page, 'sh', 'openapi-python-client generate');
    expect(wordsOf(block, 'openapi-python-client generate')).to.have.members([...pythonOptions]);
  });

  it('have the configuration that test/clients generates with, for Go', () => {
    const { code } = blockWith(compiled, 'yaml', 'package: gateway');
    expect(code).to.equal(read('test/clients/go/config.yaml'));
    expect(blockWith(compiled, 'sh', 'go run').code).to.include(
      `go run ${goGenerator} -config config.yaml openapi.yaml`,
    );
  });

  it('have the configuration that test/clients generates with, for Kubb', () => {
    const { code } = blockWith(page, 'js', '@kubb/core');
    expect(code).to.equal(read('test/clients/typescript/kubb/kubb.config.js'));
  });

  it('generate from openapi.yaml as it is', () => {
    for (const { code } of shells) expect(code).to.not.match(/\b(?:sed|awk|perl)\b|\S+\.yaml.*> /);
    expect(blockWith(compiled, 'sh', '-g rust').code).to.include('generate -i openapi.yaml -g rust');
  });

  it('name the versions that are tested', () => {
    const named = shells.flatMap(({ code }) => code.match(/\S+(?:==|@v?\d)\S*/g) ?? []);
    const python = read('test/clients/python/requirements.txt').match(/^openapi-python-client==\S+/m)?.[0];
    const heyApi = `@hey-api/openapi-ts@${devDependencies['@hey-api/openapi-ts']}`;
    const ofPackages = ['orval', 'kubb'].flatMap((name) => {
      const { dependencies } = JSON.parse(read(`test/clients/typescript/${name}/package.json`));
      return Object.entries(dependencies).flatMap(([pkg, version]) => (pkg === 'axios' ? [] : [`${pkg}@${version}`]));
    });
    expect(new Set(named)).to.deep.equal(new Set([openapiGenerator, python, heyApi, goGenerator, ...ofPackages]));
  });
});
