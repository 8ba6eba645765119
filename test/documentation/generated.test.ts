import { expect } from 'chai';
import { variables } from '../../src/cli/config/variables.ts';
import type { ModelGatewayOptions } from '../../src/index.ts';
import { resolveOptions } from '../../src/options/resolve.ts';
import { documents, documentText } from './documents.ts';
import { generatedParts, withGeneratedParts } from './generated.ts';
import { countOptions, optionTables } from './option-tables.ts';

/** Every option, as the error about one that is not names them. */
function optionNames(): string[] {
  try {
    resolveOptions({ nothing: 1 } as unknown as ModelGatewayOptions);
  } catch (error) {
    return /there are (.+)$/.exec((error as Error).message)?.[1]?.split(', ') ?? [];
  }
  return [];
}

describe('What npm run docs:generate writes', () => {
  for (const document of Object.keys(generatedParts)) {
    it(`is in ${document} as the sources have it`, function () {
      // reads every type of the package, which takes a quarter of a minute where nothing else runs
      this.timeout(180_000);
      const text = documentText(document);
      expect(text).to.equal(withGeneratedParts(document, text));
    });
  }

  it('is marked in no other document', () => {
    const marked = [...documents].filter(([, text]) => text.includes(': npm run docs:generate -->'));
    expect(marked.map(([name]) => name)).to.have.members(Object.keys(generatedParts));
  });

  it('has every option of the gateway', () => {
    const names = optionNames();
    expect(names.length).to.be.greaterThan(20);
    const tables = optionTables();
    for (const name of names) expect(tables).to.include(`| \`${name}\` |`);
  });

  it('has 30 options at the top level and 91 in all at most, besides the fields of prices, and 50 variables', () => {
    const { topLevel, single } = countOptions();
    const variableCount = Object.keys(variables).length;
    console.log(`      ${topLevel} options at the top level, ${single} in all, ${variableCount} variables`);
    expect(topLevel).to.equal(optionNames().length).and.to.be.at.most(30);
    expect(single).to.be.at.most(91);
    expect(variableCount).to.be.at.most(50);
  });

  it('says of each option when to set it', () => {
    expect(countOptions().unexplained).to.deep.equal([]);
  });

  it('describes each option', () => {
    expect(optionTables()).to.not.match(/^\| `\w+` \| +\|/m);
  });
});
