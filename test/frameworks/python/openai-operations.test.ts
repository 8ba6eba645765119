import { expect } from 'chai';
import { startForClients } from '../../clients/live.ts';
import { python, skipWithout } from '../../documentation/runtimes.ts';
import type { LiveGateway } from '../../support/gateway.ts';
import { type Listening, listen } from '../../support/listen.ts';
import { hasDocumentedPath, isDocumented } from '../../support/spec.ts';
import { runProgram } from './program.ts';

/** What has come of one call, as operations.py prints it. */
interface Called {
  /** As `GET /v1/models`. */
  readonly requests: readonly string[];
  /** What went wrong in the client. */
  readonly error?: string;
  /** What an error of the gateway says. */
  readonly status?: number;
  readonly code?: string;
  readonly message?: string;
  /** What the gateway has sent, and what the client has made of it. */
  readonly sent?: unknown;
  readonly returned?: unknown;
}

interface Outcome {
  readonly operations: readonly (Called & { readonly name: string })[];
  readonly served: Readonly<Record<string, Called>>;
}

describe("the operations of OpenAI's client for Python", function () {
  this.timeout(600_000);
  let live: LiveGateway;
  let alone: Listening;
  let outcome: Outcome;

  before(async function () {
    skipWithout(this, python);
    live = await startForClients();
    alone = await listen(live.gateway.router);
    outcome = await runProgram('operations.py', `${alone.url}/v1`, live.key);
  });
  after(async () => {
    await alone?.close();
    await live?.close();
  });

  it('are more than 250, and each sends one request', () => {
    expect(outcome.operations.length).to.be.above(250);
    for (const { name, error, requests } of outcome.operations) {
      expect(error, name).to.equal(undefined);
      expect(requests, name).to.have.length(1);
    }
  });

  it('are served where openapi.yaml has them: the client reads every field of the answer', () => {
    const inOpenApi = outcome.operations.filter(({ requests: [request = ''] }) => isDocumented(request));
    expect(Object.keys(outcome.served)).to.have.members(inOpenApi.map(({ name }) => name));
    for (const [name, { error, status, message, sent, returned }] of Object.entries(outcome.served)) {
      expect([error, status, message], name).to.deep.equal([undefined, undefined, undefined]);
      expect(returned, name).to.deep.equal(sent);
    }
  });

  it('are refused with 405, or with 404 and their name, where openapi.yaml does not have them', () => {
    for (const {
      name,
      requests: [request = ''],
      status,
      code,
      message,
    } of outcome.operations) {
      if (isDocumented(request)) continue;
      if (hasDocumentedPath(request)) expect([status, code], name).to.deep.equal([405, 'method_not_allowed']);
      else {
        expect([status, code], name).to.deep.equal([404, 'endpoint_not_served']);
        expect(message, name).to.include(`This gateway does not serve ${request}; the model endpoints are /v1/`);
      }
    }
  });
});
