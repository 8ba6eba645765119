import { expect } from 'chai';
import { loadSpec, specMethods } from '../src/openapi/spec.ts';
import { operationTable, type RouterParts } from '../src/operation-table.ts';
import { createProxy } from '../src/proxy/proxy.ts';
import { loopbackOptions } from './support/gateway.ts';

describe('the table of operations', () => {
  it('has exactly the operations of openapi.yaml: none without a handler, none without a description', () => {
    const { operations: models } = createProxy({
      upstreams: [],
      logger: loopbackOptions.logger,
      idempotencySecret: Buffer.alloc(32),
    });
    const table = operationTable({
      models,
      webhooks: {},
      deliveries: {},
      recoveries: {},
      health: {},
      keys: {},
      events: {},
      payments: {},
    } as unknown as RouterParts);
    const described = Object.values(loadSpec().paths).flatMap((path) =>
      specMethods.flatMap((method) => path[method]?.operationId ?? []),
    );
    expect(Object.keys(table).sort()).to.deep.equal(described.sort());
  });
});
