import { expect } from 'chai';
import { createRoomQueue } from '../../../src/deliveries/fan-out/room-queue.ts';

const webhook = (webhookId: string) => ({ webhookId, userId: 'usr_1' });

describe('First attempts that wait for room', () => {
  /** A queue that writes down what begins as long as there is room. */
  function start({ limit = 10, maxWait = 60_000, mayWait = (): boolean => true } = {}) {
    const queue = createRoomQueue({ limit, maxWait, mayWait });
    const begun: string[] = [];
    const ended: string[] = [];
    let room = 0;
    function wait(name: string, webhookId = 'wh_1'): boolean {
      const begin = () => {
        if (room === 0) return false;
        room -= 1;
        begun.push(name);
        return true;
      };
      const waiting = queue.wait(webhook(webhookId), begin);
      void waiting?.then(() => ended.push(name));
      return waiting !== null;
    }
    function draw(count: number, webhookId = 'wh_1'): void {
      room = count;
      queue.draw(webhookId);
    }
    return { queue, wait, draw, begun, ended };
  }

  it('begin in the order in which they came, as many as there is room for', async () => {
    const { queue, wait, draw, begun, ended } = start();
    for (const name of ['a', 'b', 'c']) wait(name);
    wait('other', 'wh_2');
    draw(2);
    await Promise.resolve();

    expect([begun, ended, queue.size]).to.deep.equal([['a', 'b'], ['a', 'b'], 2]);
    draw(5);
    expect([begun, queue.has('wh_1'), queue.has('wh_2')]).to.deep.equal([['a', 'b', 'c'], false, true]);
    queue.close();
  });

  it('are limited in number, and belong only to webhooks that will have room', () => {
    const { queue, wait, draw } = start({ limit: 2 });
    expect([wait('a'), wait('b'), wait('c')]).to.deep.equal([true, true, false]);
    draw(1);
    expect(wait('d')).to.equal(true);
    queue.close();
    expect(start({ mayWait: () => false }).wait('a')).to.equal(false);
  });

  it('do not begin after their maximum wait', async () => {
    const { queue, wait, draw, begun, ended } = start({ maxWait: 20 });
    wait('a');
    while (queue.size > 0) await new Promise((resolve) => setImmediate(resolve));
    draw(1);
    expect([begun, ended]).to.deep.equal([[], ['a']]);
  });

  it('all end when the queue closes, and none can wait after that', async () => {
    const { queue, wait, draw, begun, ended } = start();
    for (const name of ['a', 'b']) wait(name);
    queue.close();
    draw(1);
    await Promise.resolve();

    expect([begun, ended, queue.size, wait('c')]).to.deep.equal([[], ['a', 'b'], 0, false]);
  });
});
