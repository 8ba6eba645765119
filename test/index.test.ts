import { expect } from 'chai';
import * as gateway from '../src/index.ts';

describe('the public surface', () => {
  it('is these names and no others', () => {
    expect(Object.keys(gateway).sort()).to.deep.equal([
      'GatewayError',
      'createModelGateway',
      'defaultRetryDelays',
      'hardenServer',
      'keepRawBody',
      'scopes',
    ]);
  });

  it('keeps the schedule of 1 min, 5 min, 30 min, 2 h and 8 h, in milliseconds', () => {
    expect(gateway.defaultRetryDelays).to.deep.equal([60_000, 300_000, 1_800_000, 7_200_000, 28_800_000]);
    expect(() => (gateway.defaultRetryDelays as number[]).push(1)).to.throw(TypeError);
  });
});
