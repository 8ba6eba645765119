import { expect } from 'chai';
import { type SpecMediaType, type SpecSchema, spec } from '../support/openapi.ts';
import { misfits, operations, resolved, webhookOperations } from '../support/spec.ts';

interface Parameter {
  readonly name: string;
  readonly schema: SpecSchema;
  readonly example?: unknown;
  readonly examples?: Record<string, { readonly value: unknown }>;
}

function examplesOf(content: Readonly<Record<string, SpecMediaType>> = {}) {
  return Object.entries(content).flatMap(([mediaType, { schema = {}, examples = {} }]) =>
    Object.entries(examples).map(([name, example]) => ({ mediaType, name, schema, value: resolved(example).value })),
  );
}

function parametersOf(path: string, parameters: readonly object[] = []): Parameter[] {
  const shared = (spec.paths[path] ?? spec.webhooks[path])?.parameters ?? [];
  return [...shared, ...parameters].map((parameter) => resolved(parameter) as unknown as Parameter);
}

describe('the examples in openapi.yaml', () => {
  for (const { path, operation } of [...operations, ...webhookOperations]) {
    const id = operation.operationId;

    for (const { mediaType, name, schema, value } of examplesOf(operation.requestBody?.content)) {
      it(`of what ${id} takes fit their schema: ${mediaType}, ${name}`, () => {
        expect(misfits(schema, value)).to.equal('');
      });
    }

    for (const [status, reference] of Object.entries(operation.responses)) {
      const response = resolved(reference) as { content?: Record<string, SpecMediaType> };
      for (const { mediaType, name, schema, value } of examplesOf(response.content)) {
        it(`of what ${id} answers fit their schema: ${status}, ${mediaType}, ${name}`, () => {
          expect(misfits(schema, value)).to.equal('');
        });
      }
    }

    for (const { name, schema, example, examples } of parametersOf(path, operation.parameters)) {
      it(`of the parameter ${name} of ${id} fit its schema`, () => {
        const values = examples ? Object.values(examples).map(({ value }) => value) : [example];
        expect(values).to.not.have.length(0);
        for (const value of values) expect(misfits(schema, value)).to.equal('');
      });
    }
  }

  for (const { path: type, operation } of webhookOperations) {
    it(`of the event ${type} are an envelope of that type`, () => {
      const [example] = examplesOf(operation.requestBody?.content);
      expect(Object.keys(example?.value as object)).to.deep.equal(['id', 'type', 'created', 'data']);
      expect(example?.value).to.include({ type });
    });
  }

  it('do not fit their schema with a wrong value', () => {
    const schema = { $ref: '#/components/schemas/PaymentCompletedEvent' };
    expect(misfits(schema, { id: 'evt_1' })).to.contain('required property');
  });
});
