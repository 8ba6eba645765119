import { expect } from 'chai';
import { errorIn, errorStatus } from '../../src/errors.ts';
import { type ErrorBody, GatewayError } from '../../src/index.ts';
import { type SpecMediaType, spec } from '../support/openapi.ts';
import { operations, resolved } from '../support/spec.ts';

const schema = spec.components.schemas.ErrorCode as { enum: string[]; 'x-enumDescriptions': Record<string, string> };

describe('the errors in openapi.yaml', () => {
  it('are those of the package, in the same order', () => {
    expect(schema.enum).to.deep.equal(Object.keys(errorStatus));
  });

  it('are each described, starting with their status', () => {
    expect(Object.keys(schema['x-enumDescriptions'])).to.deep.equal(schema.enum);
    for (const [code, status] of Object.entries(errorStatus)) {
      expect(schema['x-enumDescriptions'][code], code).to.match(new RegExp(`^${status}\\. [A-Z].*\\.$`));
    }
  });

  for (const { operation } of operations) {
    for (const [status, reference] of Object.entries(operation.responses)) {
      if (status === 'default' || Number(status) < 400) continue;
      it(`are shown by ${operation.operationId} under the status they have: ${status}`, () => {
        const response = resolved(reference) as unknown as { content: Record<string, SpecMediaType> };
        const examples = Object.values(response.content['application/json']?.examples ?? {}).map(resolved);
        const own = examples
          .map((example) => example.value as ErrorBody & { readonly type?: 'error' })
          .filter(({ error }) => Object.hasOwn(errorStatus, error.code));
        expect(own).to.not.have.length(0);
        for (const { type: isMessage, error } of own) {
          const { code, type } = error;
          expect(errorStatus[code], code).to.equal(Number(status));
          const answer = { status: Number(status), requestId: '' };
          const body = errorIn(isMessage ? 'anthropic' : 'openai', new GatewayError(code, '').toBody(), answer);
          expect((body as ErrorBody).error.type, code).to.equal(type);
        }
      });
    }
  }
});
