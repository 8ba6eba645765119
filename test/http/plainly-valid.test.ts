import { expect } from 'chai';
import fc from 'fast-check';
import { createPlainlyValid, type PlainlyValid } from '../../src/http/plainly-valid.ts';
import { isRelayed, joinRoutes, type Route } from '../../src/http/routes.ts';
import { createValidator, type Validate } from '../../src/http/validate.ts';
import { loadSpec } from '../../src/spec.ts';
import { fakeOperations } from './fake-edge.ts';

describe('a call that is plainly valid', () => {
  const spec = loadSpec();
  const routes = joinRoutes(spec, fakeOperations()).filter(
    (route) => (isRelayed(route) || route.scope === 'events:publish') && route.mediaTypes.has('application/json'),
  );
  let isPlainlyValid: PlainlyValid;
  let validate: Validate;

  before(async () => {
    isPlainlyValid = createPlainlyValid(spec, routes);
    validate = await createValidator(spec, routes);
  });

  const examplesOf = ({ description }: Route): Record<string, unknown>[] =>
    Object.values(description.requestBody?.content['application/json']?.examples ?? {}).map(
      ({ value }) => value as Record<string, unknown>,
    );

  it('is every example of openapi.yaml', () => {
    expect(routes).to.have.lengthOf.at.least(5);
    for (const route of routes) {
      for (const example of examplesOf(route)) expect(isPlainlyValid(route, {}, example), route.path).to.equal(true);
    }
  });

  it('is judged by the validator no other way, whatever is in it', async () => {
    const field = fc.constantFrom(
      ...['model', 'messages', 'prompt', 'input', 'stream', 'stream_options', 'n', 'temperature', 'stop', 'tools', 'x'],
      ...['type', 'user_id', 'data'],
    );
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom(
        null,
        true,
        '',
        'm',
        0,
        1.5,
        [],
        {},
        [{ role: 'user', content: 'Hi' }],
        [{ role: 1 }],
        ['a'],
        [1],
      ),
    );
    const changes = fc.dictionary(field, fc.option(value, { nil: undefined }), { maxKeys: 3 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...routes), fc.nat(), changes, async (route, pick, changed) => {
        const examples = examplesOf(route);
        const body = JSON.parse(JSON.stringify({ ...examples[pick % examples.length], ...changed }));
        const judged = await validate(route, { params: {}, query: {}, headers: {}, body }).then(
          () => true,
          () => false,
        );
        expect(isPlainlyValid(route, {}, body)).to.equal(judged);
      }),
      { numRuns: 400 },
    );
  });

  it('is none without a body, or where parameters have to be looked at', () => {
    const [route] = routes as [Route];
    const [body] = examplesOf(route);
    expect(isPlainlyValid(route, {}, undefined)).to.equal(false);
    const withQuery = { ...route, parameters: [{ name: 'mode', in: 'query' }] };
    expect(createPlainlyValid(spec, [withQuery])(withQuery, {}, body)).to.equal(false);
    const withHeader = { ...route, parameters: [{ name: 'X-Mode', in: 'header' }], headers: ['x-mode'] };
    const plainlyValid = createPlainlyValid(spec, [withHeader]);
    expect(plainlyValid(withHeader, {}, body)).to.equal(true);
    expect(plainlyValid(withHeader, { 'x-mode': 'any' }, body)).to.equal(false);
  });
});
