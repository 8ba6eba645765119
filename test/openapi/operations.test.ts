import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { type SpecMediaType, spec } from '../support/openapi.ts';
import { operations, resolved, webhookOperations } from '../support/spec.ts';

/** The operations that every version has; everything else is an extension. */
const interfaceOperations = [
  'createChatCompletion',
  'createImage',
  'createEmbedding',
  'listModels',
  'createWebhook',
  'listWebhooks',
  'updateWebhook',
  'deleteWebhook',
];

const byPath = [...operations, ...webhookOperations];

interface Responses {
  readonly [status: string]: { readonly content?: Record<string, SpecMediaType>; readonly headers?: object };
}

describe('openapi.yaml', () => {
  it('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(spec.info.version).to.equal(version);
  });

  it('names every operation once', () => {
    const ids = byPath.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).to.equal(ids.length);
    for (const id of ids) expect(id).to.match(/^[a-z]+([A-Z][a-z]+)+$/);
  });

  it('has every operation of the interface, and marks whatever goes beyond it', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(ids).to.include.members(interfaceOperations);
    const extensions = operations.filter(({ operation }) => operation['x-extension']);
    expect(extensions.map(({ operation }) => operation.operationId)).to.have.members(
      ids.filter((id) => !interfaceOperations.includes(id)),
    );
  });

  it('uses every tag it describes, and no other', () => {
    const used = new Set(byPath.flatMap(({ operation }) => operation.tags ?? []));
    expect([...used]).to.have.members(spec.tags.map(({ name }) => name));
  });

  it('has no anyOf, of which openapi-generator makes an empty type for Rust', () => {
    expect(JSON.stringify(spec)).to.not.contain('"anyOf":');
  });

  it('has no default in a schema, so that nothing is filled in for the client', () => {
    const requests = byPath.map(({ operation }) => operation.requestBody);
    expect(JSON.stringify([requests, spec.components.schemas])).to.not.contain('"default":');
  });

  it('has each parameter that several operations share once', () => {
    const declared = byPath.flatMap(({ path, operation }) => [
      ...(spec.paths[path]?.parameters ?? []).map((parameter) => ({ path, parameter })),
      ...(operation.parameters ?? []).map((parameter) => ({ path: operation.operationId, parameter })),
    ]);
    const inline = new Map(
      declared
        .filter(({ parameter }) => parameter.$ref === undefined)
        .map(({ path, parameter }) => [`${path} ${parameter.name}`, JSON.stringify(parameter)]),
    );
    expect([...new Set(inline.values())]).to.deep.equal([...inline.values()]);
  });

  it('describes exactly the events that a webhook can subscribe to', () => {
    const subscribable = spec.components.schemas.KnownEventType as { enum: string[] };
    expect(Object.keys(spec.webhooks)).to.deep.equal(subscribable.enum);
  });

  for (const { path, method, operation } of byPath) {
    describe(`${method.toUpperCase()} ${path}`, () => {
      it('has a summary, a description and one tag', () => {
        expect(operation).to.include.keys('summary', 'description');
        expect(operation.tags).to.have.length(1);
      });

      it('shows an example of each body it takes or answers', () => {
        const responses = Object.values(operation.responses as Responses).map(resolved);
        const bodies = [operation.requestBody, ...responses].flatMap((body) => Object.values(body?.content ?? {}));
        expect(bodies).to.not.have.length(0);
        for (const { schema, examples } of bodies) {
          expect(schema).to.be.an('object');
          expect(examples).to.be.an('object').that.is.not.empty;
        }
      });
    });
  }

  for (const { path, method, operation } of operations) {
    describe(`${method.toUpperCase()} ${path}`, () => {
      it('asks for an API key', () => {
        expect(operation.security ?? spec.security).to.deep.equal([{ bearerAuth: [] }]);
      });

      it('has the header x-request-id in each answer', () => {
        for (const [status, response] of Object.entries(operation.responses as Responses)) {
          expect(resolved(response).headers, status).to.include.keys('x-request-id');
        }
      });

      it('lists the errors that any call can get, and those of a body if it takes one', () => {
        const ofBody = operation.requestBody ? ['408', '413', '415'] : [];
        expect(operation.responses).to.include.keys('400', '401', '500', '503', ...ofBody);
      });
    });
  }

  for (const { path, operation } of webhookOperations) {
    it(`signs ${path} instead of asking for an API key`, () => {
      const names = (operation.parameters ?? []).map((parameter) => resolved(parameter).name);
      expect(operation.security).to.deep.equal([]);
      expect(names).to.deep.equal([
        'x-service-signature',
        'webhook-id',
        'webhook-timestamp',
        'webhook-signature',
        'x-service-test',
      ]);
    });
  }
});
