import { expect } from 'chai';
import { documentText } from '../documentation/documents.ts';
import { withGeneratedParts } from './scale-document.ts';

describe('docs/scale.md', () => {
  it('has the tables that npm run docs:generate makes', () => {
    const text = documentText('docs/scale.md');
    expect(text).to.equal(withGeneratedParts(text));
  });
});
