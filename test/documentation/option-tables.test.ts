import { expect } from 'chai';
import type { ModelGatewayOptions } from '../../src/index.ts';
import { resolveOptions } from '../../src/options/resolve.ts';
import { documentText } from './documents.ts';
import { closing, opening, optionTables } from './option-tables.ts';

const configuration = documentText('docs/configuration.md');

/** Every option, as the error about one that is not names them. */
function optionNames(): string[] {
  try {
    resolveOptions({ nothing: 1 } as unknown as ModelGatewayOptions);
  } catch (error) {
    return /there are (.+)$/.exec((error as Error).message)?.[1]?.split(', ') ?? [];
  }
  return [];
}

describe('the options in docs/configuration.md', () => {
  it('match their doc comments (npm run docs:generate)', () => {
    const [, tables] = new RegExp(`${opening}\n\n(.*?)\n\n${closing}`, 's').exec(configuration) ?? [];
    expect(tables).to.equal(optionTables());
  });

  it('include every option of the gateway', () => {
    const names = optionNames();
    expect(names.length).to.be.greaterThan(40);
    for (const name of names) expect(configuration).to.include(`| \`${name}\` |`);
  });

  it('each have a description', () => {
    expect(optionTables()).to.not.match(/^\| `\w+` \| +\|/m);
  });
});
