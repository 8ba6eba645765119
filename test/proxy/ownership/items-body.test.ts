import { expect } from 'chai';
import type { OutboundError } from '../../../src/outbound/outbound-error.ts';
import { AnsweredIds } from '../../../src/proxy/ownership/item-ids.ts';
import { itemsBody } from '../../../src/proxy/ownership/items-body.ts';
import { flow, sentBody } from '../../support/body-sinks.ts';

const answer = Buffer.from('{"output":[{"id":"msg_1"}]}');

function open(store: (ids: readonly string[]) => Promise<void>) {
  const source = sentBody();
  return { source, body: itemsBody(source, new AnsweredIds('output'), store) };
}

describe('a body that shows items', () => {
  it('is held until their ids are stored, and then ends', async () => {
    const ids: string[] = [];
    let stored = () => {};
    const { source, body } = open((shown) => {
      ids.push(...shown);
      return new Promise((resolve) => {
        stored = resolve;
      });
    });
    const chunks: Buffer[] = [];
    const outcome = flow(body, (chunk) => chunks.push(chunk));
    source.push(answer);
    source.settle('end');
    await new Promise(setImmediate);
    expect([ids, chunks]).to.deep.equal([['msg_1'], []]);
    stored();
    expect(await outcome).to.equal('end');
    expect(Buffer.concat(chunks)).to.deep.equal(answer);
  });

  it('ends with the cause when what it is sent to throws', async () => {
    const cause = new Error('cannot write');
    const { source, body } = open(async () => {});
    const outcome = flow(body, () => {
      throw cause;
    });
    source.push(answer);
    source.settle('end');
    expect(((await outcome) as OutboundError).cause).to.equal(cause);
  });
});
