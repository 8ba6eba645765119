import { expect } from 'chai';
import { idParameter, storedCalls, storedId, upstreamPath } from '../../src/stored/kinds.ts';
import { spec } from '../support/openapi.ts';
import { operations, resolved } from '../support/spec.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: { readonly pattern?: string };
}

const described = operations
  .filter(({ operation }) => operation.operationId in storedCalls)
  .flatMap(({ path, operation }) =>
    [...(spec.paths[path]?.parameters ?? []), ...(operation.parameters ?? [])].map((parameter) => ({
      operationId: operation.operationId,
      ...(resolved(parameter) as unknown as Parameter),
    })),
  )
  // the name of a model is no id
  .filter(({ name, in: location }) => (location === 'path' && name !== 'model') || name === 'after');

describe('the ids of what upstreams keep', () => {
  for (const { operationId, name, schema } of described) {
    it(`are in openapi.yaml as the gateway takes them: ${name} of ${operationId}`, () => {
      expect(schema.pattern).to.equal(storedId.source);
    });
  }

  it('are described for every path that has one', () => {
    const withId = Object.entries(storedCalls).filter(([, call]) => idParameter(call) && call.kind !== 'model');
    expect(described.map(({ operationId }) => operationId)).to.include.members(withId.map(([id]) => id));
  });

  it('are those of any provider, and lead nowhere else in a path', () => {
    const path = '/responses/{response_id}';
    for (const id of ['resp_9f2c', 'chatcmpl-9f2c', 'a:b', 'A.b..c', '-', 'x'.repeat(256)]) {
      expect(upstreamPath({ path }, { response_id: id })).to.equal(`/responses/${encodeURIComponent(id)}`);
    }
    for (const id of ['', '.', '..', '../models', 'a/b', 'a%2fb', 'a b', 'é', 'a\n', 'x'.repeat(257)]) {
      expect(() => upstreamPath({ path }, { response_id: id }), id).to.throw('response_id: must be an id');
    }
  });

  it('of models are their names, which lead nowhere else in a path', () => {
    const path = '/models/{model}';
    for (const model of ['ft:m:acme::1', 'acme/m', '../files', 'a.b', 'a b', 'é', 'x'.repeat(256)]) {
      expect(upstreamPath({ path }, { model })).to.equal(`/models/${encodeURIComponent(model)}`);
    }
    for (const model of ['', '.', '..', '...', 'a\n', 'a\0', '\ud800', 'x'.repeat(257)]) {
      expect(() => upstreamPath({ path }, { model }), model).to.throw('model: must be an id');
    }
  });
});
