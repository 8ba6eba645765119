import { expect } from 'chai';
import type { ModelCall, ModelGatewayOptions } from '../../src/index.ts';

type OnRequest = NonNullable<ModelGatewayOptions['onRequest']>;

declare function check(call: ModelCall): void;
declare function checkLater(call: ModelCall): Promise<void>;

describe('the types of the hooks', () => {
  it('let onRequest return nothing, or another model, at once or later', () => {
    const hooks: Record<string, () => OnRequest> = {
      'a function of the host that is typed to return void': () => check,
      'one that returns a promise of nothing': () => checkLater,
      'one that ends without return': () => () => {},
      'one that sometimes names a model':
        () =>
        async ({ stream }) => {
          if (stream) return { model: 'fast' };
        },
      'one that returns undefined': () => () => undefined,
      'one that returns a model': () => () => ({ model: 'fast' }),
    };
    expect(hooks).to.have.property('one that ends without return');
  });

  it('do not let onRequest return anything else', () => {
    const hooks: Record<string, () => OnRequest> = {
      // @ts-expect-error a name is no object
      text: () => () => 'fast',
      // @ts-expect-error a model is named by a text
      number: () => () => ({ model: 1 }),
    };
    expect(hooks).to.have.keys('text', 'number');
  });
});
