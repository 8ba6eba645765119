import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { joinRoutes, type Route } from '../../../src/http/router.ts';
import { createCompiledCheck } from '../../../src/http/validation/compiled-check.ts';
import { invalidRequest } from '../../../src/http/validation/invalid-request.ts';
import { createValidator } from '../../../src/http/validation/validator.ts';
import type { GatewayError } from '../../../src/index.ts';
import { simplifySchemas } from '../../../src/openapi/schemas.ts';
import { loadSpec } from '../../support/openapi.ts';
import { fakeOperations } from '../fake-edge.ts';

const seed = 20_261_125;

/** A valid body of each operation, with a value in every place where one can be wrong. */
const valid: Readonly<Record<string, object>> = {
  createChatCompletion: {
    model: 'm',
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    ],
    stop: ['a'],
    stream_options: { include_usage: true },
    max_tokens: 5,
    temperature: 1,
    tool_choice: 'auto',
  },
  createCompletion: { model: 'm', prompt: ['a', 1, [2]], stop: 'a', n: 1 },
  createEmbedding: { model: 'm', input: ['a', 1, [2]], encoding_format: 'float', dimensions: 3 },
  createImage: { model: 'm', prompt: 'a cat', n: 1, size: 'auto' },
  createResponse: { model: 'm', input: 'Hi', max_output_tokens: 5, conversation: { id: 'conv_1' } },
  publishEvent: { type: 'payment.completed', user_id: 'usr_1', data: { amount: 5 } },
};

const odd = fc
  .constantFrom<unknown>(
    null,
    5,
    -1,
    1.5,
    1e21,
    'x',
    '',
    'x'.repeat(300),
    true,
    [],
    [1],
    [[1]],
    [null],
    {},
    { type: 5 },
  )
  .map((value) => structuredClone(value));

/** A body in which some values are other ones, or are missing, or have a neighbour that no schema knows. */
function changed(body: object, changes: readonly (readonly [place: number, way: number, value: unknown])[]): unknown {
  const copy = { body: structuredClone(body) };
  for (const [place, way, value] of changes) {
    const places: [holder: Record<string, unknown>, key: string][] = [];
    const visit = (holder: object): void => {
      for (const [key, child] of Object.entries(holder)) {
        places.push([holder as Record<string, unknown>, key]);
        if (typeof child === 'object' && child !== null) visit(child);
      }
    };
    visit(copy);
    const [holder, key] = places[place % places.length] as (typeof places)[0];
    if (way === 0 && !Array.isArray(holder) && key !== 'body') delete holder[key];
    else if (way === 1 && !Array.isArray(holder)) holder.unknown = value;
    else holder[key] = value;
  }
  return copy.body;
}

describe('the compiled check', () => {
  const spec = simplifySchemas(loadSpec());
  const routes = joinRoutes(spec, fakeOperations()).filter(({ description }) => description.operationId in valid);
  const findFault = createCompiledCheck(spec, routes);
  const headers = { 'content-type': 'application/json' };

  const told = ({ code, param, message }: GatewayError) => ({ code, param, message });

  function byCompiledCheck(route: Route, body: unknown) {
    const fault = findFault(route, { headers, params: {}, body });
    return fault && told(invalidRequest(spec, route, fault));
  }

  it('accepts what the validator accepts, and words what is wrong as it does', async () => {
    const validate = createValidator(spec, routes);
    const byValidator = (route: Route, body: unknown) => {
      const req = new IncomingMessage(new Socket());
      req.method = route.method;
      req.headers = headers;
      return validate(req, route, { params: {}, query: {}, body }).then(() => undefined, told);
    };
    const changes = fc.array(fc.tuple(fc.nat(10_000), fc.nat(3), odd), { minLength: 1, maxLength: 2 });
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(valid)), changes, async (operationId, given) => {
        const route = routes.find(({ description }) => description.operationId === operationId) as Route;
        const body = changed(valid[operationId] as object, given);
        const fault = byCompiledCheck(route, structuredClone(body));
        if (fault) refused += 1;
        expect(fault, JSON.stringify(body)).to.deep.equal(await byValidator(route, body));
      }),
      { seed, numRuns: 600 },
    );
    expect(refused).to.be.within(100, 590);
  });

  it('accepts each of these bodies as it is', () => {
    expect(routes.length).to.equal(Object.keys(valid).length);
    for (const route of routes) {
      expect(byCompiledCheck(route, valid[route.description.operationId]), route.path).to.equal(undefined);
    }
  });
});
