import { expect } from 'chai';
import { describeSchema, simplifySchemas } from '../../src/openapi/schemas.ts';
import { type Spec, type SpecSchema, spec } from '../support/openapi.ts';

const object = { type: 'object', additionalProperties: false };

function simplified(schemas: Readonly<Record<string, SpecSchema>>): Readonly<Record<string, SpecSchema>> {
  return simplifySchemas({ components: { schemas } } as unknown as Spec).components.schemas;
}

describe('the schemas that requests are checked against', () => {
  it('have one object in place of several, with the fields of all and what each of them requires', () => {
    const { Either } = simplified({
      Either: { oneOf: [{ $ref: '#/components/schemas/Done' }, { $ref: '#/components/schemas/Failed' }] },
      Done: {
        ...object,
        required: ['id', 'state', 'sum'],
        properties: { state: { const: 'done' }, id: {}, sum: { minimum: 0 } },
      },
      Failed: {
        ...object,
        required: ['state', 'id'],
        properties: { id: {}, state: { enum: ['failed', 'lost'] }, why: {} },
      },
    });
    expect(Either).to.deep.equal({
      ...object,
      required: ['id', 'state'],
      properties: { state: { type: 'string', enum: ['done', 'failed', 'lost'] }, id: {}, sum: { minimum: 0 }, why: {} },
    });
  });

  it('do not count the fields of an object that requires some by name', () => {
    const Named = { ...object, required: ['a'], minProperties: 2 };
    const Any = { ...object, minProperties: 1 };
    expect(simplified({ Named, Any })).to.deep.equal({ Named: { ...object, required: ['a'] }, Any });
  });

  it('are otherwise those of openapi.yaml', () => {
    const simple = simplifySchemas(spec).components.schemas;
    const changed = Object.keys(simple).filter(
      (name) =>
        JSON.stringify(Object.entries(simple[name] ?? {}).sort()) !==
        JSON.stringify(Object.entries(spec.components.schemas[name] ?? {}).sort()),
    );
    expect(changed).to.have.members(['PaymentReport', 'Budget']);
  });
});

describe('what a schema asks for, in words', () => {
  const spec = { components: { schemas: { Size: { type: 'integer', minimum: 1 } } } } as unknown as Spec;
  const table: [SpecSchema, string][] = [
    [{ type: 'string' }, 'a string'],
    [{ type: 'string', minLength: 8, maxLength: 256 }, 'a string of 8 to 256 characters'],
    [{ type: 'string', maxLength: 5 }, 'a string of 5 or fewer characters'],
    [{ type: 'array', minItems: 2, maxItems: 2 }, 'an array of 2 items'],
    [{ type: 'integer', minimum: 1, maximum: 100 }, 'a whole number from 1 to 100'],
    [{ $ref: '#/components/schemas/Size' }, 'a whole number, 1 or more'],
    [{ type: 'number', maximum: 2 }, 'a number, 2 or less'],
    [{ type: ['boolean', 'null'] }, 'true or false or null'],
    [{ type: ['boolean', 'null'], not: { const: true } }, 'false or null'],
    [{ enum: ['a', 'b'] }, 'one of a, b'],
    [{ const: true }, 'true'],
    [{ anyOf: [{ type: 'string' }, { type: 'object' }, { type: 'string' }] }, 'a string or an object'],
    [{}, ''],
  ];
  for (const [schema, words] of table) {
    it(`is ${words || 'nothing'} for ${JSON.stringify(schema)}`, () => {
      expect(describeSchema(spec, schema)).to.equal(words);
    });
  }
});
