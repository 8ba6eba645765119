import { expect } from 'chai';
import { type OperationParts, operationTable } from '../../../src/gateway/operations.ts';
import type { OperationTable } from '../../../src/http/operation.ts';
import { RealtimeSecrets } from '../../../src/sockets/secrets.ts';
import { createSessionOperations } from '../../../src/sockets/session-calls.ts';
import { createTestProxy } from '../../support/model-proxy.ts';
import { noStoredSecrets } from '../../support/no-stored-objects.ts';
import { spec, specMethods } from '../../support/openapi.ts';

describe('the table of operations', () => {
  it('has exactly the operations of openapi.yaml: none without a handler, none without a description', () => {
    const { operations, relaying } = createTestProxy({ upstreams: [] });
    const secrets = new RealtimeSecrets({ stored: noStoredSecrets, principalOfKey: async () => null });
    const table = operationTable({
      models: { ...operations, ...createSessionOperations({ relaying, secrets, spec }) },
      webhooks: {},
      deliveries: {},
      recoveries: {},
      health: {},
      keys: {},
      events: {},
      accounting: {},
      admin: {},
      processes: {},
    } as unknown as OperationParts);
    const described = Object.values(spec.paths).flatMap((path) =>
      specMethods.flatMap((method) => path[method]?.operationId ?? []),
    );
    expect(Object.keys(table).sort()).to.deep.equal(described.sort());
  });

  it('does not compile with a handler that contradicts openapi.yaml', () => {
    const contradictions: Partial<OperationTable> = {
      // @ts-expect-error the webhooks of a list are an array
      listWebhooks: { handle: async () => ({ status: 200, body: { data: 1, has_more: false } }) },
      // @ts-expect-error a new webhook is answered with 201
      createWebhook: { handle: async () => ({ status: 200, body: { id: '', url: '', events: [], active: true } }) },
      // @ts-expect-error the operation has no path parameter of this name
      retrieveCredits: { handle: async ({ params: { user_id } }) => user_id },
    };
    // @ts-expect-error openapi.yaml has no such operation
    const unknown: Partial<OperationTable> = { retrieveWeather: { handle: async () => ({ status: 200, body: {} }) } };
    expect({ ...contradictions, ...unknown }).to.have.keys(
      'listWebhooks',
      'createWebhook',
      'retrieveCredits',
      'retrieveWeather',
    );
  });
});
