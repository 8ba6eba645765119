import { expect } from 'chai';
import { adviceFor, type FailureAdvice, failures, statusFailure } from '../../src/deliveries/failures.ts';
import { documentText } from '../documentation/documents.ts';
import { type SpecSchema, spec } from '../support/openapi.ts';
import { misfits, resolved } from '../support/spec.ts';

const schema = spec.components.schemas.DeliveryErrorCode as { type: string; $defs: Record<string, SpecSchema> };
const { Known, ByStatus } = schema.$defs;
const named = resolved(Known) as { enum: string[]; 'x-enumDescriptions': Record<string, string> };
const byStatus = resolved(ByStatus) as { description: string; pattern: string };
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
    const listed = { anyOf: [Known, ByStatus] };
    for (const code of [...Object.keys(failures), 'http_100', 'http_404', 'http_500', 'http_999']) {
      expect(misfits(listed, code), code).to.equal('');
    }
    for (const code of ['', 'http_', 'http_2000', 'http_abc', 'HTTP_500', 'ECONNRESET']) {
      expect(misfits(listed, code), code).to.not.equal('');
    }
  });

  it('may be others in a client that is older than the gateway', () => {
    expect(misfits(schema, 'quic_failed')).to.equal('');
  });

  it('have advice of their own, and every status has the same', () => {
    expect(adviceFor('timeout')).to.equal(failures.timeout);
    expect(adviceFor('http_404')).to.equal(statusFailure);
  });
});
