import { expect } from 'chai';
import { adviceFor, type FailureAdvice, failures, statusFailure } from '../../src/deliveries/attempt/failures.ts';
import { documentText } from '../documentation/documents.ts';
import { misfits, resolved, spec } from '../support/spec.ts';

const schema = spec.components.schemas.DeliveryErrorCode as {
  anyOf: [{ enum: string[]; 'x-enumDescriptions': Record<string, string> }, { description: string; pattern: string }];
};
const [named, byStatus] = schema.anyOf.map(resolved) as typeof schema.anyOf;
const webhooks = documentText('docs/webhooks.md');
const inWords = ({ meaning, remedy }: FailureAdvice) => `${meaning} ${remedy}`;

describe('the codes of failed deliveries', () => {
  it('are in openapi.yaml as the package has them, each with what it means and what to do', () => {
    const expected = Object.entries(failures).map(([code, advice]) => [code, inWords(advice)]);
    expect(named.enum).to.deep.equal(Object.keys(failures));
    expect(Object.entries(named['x-enumDescriptions'])).to.deep.equal(expected);
    expect(byStatus.description).to.equal(inWords(statusFailure));
  });

  for (const [code, advice] of Object.entries({ ...failures, 'http_<status>': statusFailure })) {
    it(`are in docs/webhooks.md: ${code}`, () => {
      expect(webhooks).to.include(`| \`${code}\` | ${advice.meaning} | ${advice.remedy} |`);
    });
  }

  it('include every status that is not 2xx, and nothing that is not listed', () => {
    for (const code of [...Object.keys(failures), 'http_100', 'http_404', 'http_500', 'http_999']) {
      expect(misfits(schema, code), code).to.equal('');
    }
    for (const code of ['', 'http_', 'http_2000', 'http_abc', 'HTTP_500', 'ECONNRESET']) {
      expect(misfits(schema, code), code).to.not.equal('');
    }
  });

  it('have advice of their own, and every status has the same', () => {
    expect(adviceFor('timeout')).to.equal(failures.timeout);
    expect(adviceFor('http_404')).to.equal(statusFailure);
  });
});
