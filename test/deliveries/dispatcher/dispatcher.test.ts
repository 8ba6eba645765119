import { expect } from 'chai';
import type { ReadyAttempt } from '../../../src/deliveries/attempt.ts';
import type { AttemptRef } from '../../../src/deliveries/model.ts';
import { Dispatcher } from '../../../src/deliveries/scheduler.ts';

/** The webhook `Xa` is of the account `X`; one in lower case is alone in its account. */
const webhook = (webhookId: string) => ({ webhookId, userId: webhookId.slice(0, 1) });

describe('The dispatcher', () => {
  /** A dispatcher whose attempts end when the test says so. */
  function start(choices = {}) {
    const prepared: string[] = [];
    const sent: string[] = [];
    const givenBack: string[] = [];
    const recorded: string[] = [];
    const ends = new Map<string, () => void>();
    const rooms: string[] = [];
    let roomsInAll = 0;
    const dispatcher = new Dispatcher({
      concurrency: 4,
      perAccount: 1_000,
      perWebhook: 2,
      maxWait: 10_000,
      onRoom: ({ webhookId }) => rooms.push(webhookId),
      onResume: () => {},
      onRoomInAll: () => {
        roomsInAll += 1;
      },
      ...choices,
    });
    async function prepare({ deliveryId }: AttemptRef): Promise<ReadyAttempt> {
      prepared.push(deliveryId);
      return {
        async send() {
          sent.push(deliveryId);
          await new Promise<void>((resolve) => ends.set(deliveryId, resolve));
          return async () => {
            recorded.push(deliveryId);
          };
        },
        async giveBack() {
          givenBack.push(deliveryId);
        },
      };
    }
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const ref = (deliveryId: string): AttemptRef => {
      return { deliveryId, ...webhook(deliveryId.replace(/\d+$/, '')), attempt: 1 };
    };
    return {
      dispatcher,
      prepared,
      sent,
      givenBack,
      recorded,
      rooms,
      roomsInAll: () => roomsInAll,
      ref,
      /** Which of them were taken. */
      async offer(...ids: string[]): Promise<string[]> {
        const taken = ids.map((id) => dispatcher.offer(ref(id), prepare));
        await turn();
        return ids.filter((_, i) => taken[i] !== null);
      },
      async end(id: string) {
        ends.get(id)?.();
        await turn();
      },
    };
  }

  it('sends no more at once to a webhook than its share, and gives other webhooks the rest', async () => {
    const { offer, sent } = start();
    await offer('a1', 'a2', 'a3', 'b1', 'c1', 'd1');

    expect(sent).to.deep.equal(['a1', 'a2', 'b1', 'c1']);
  });

  it('holds prefetched attempts until a place is free, one webhook after the other', async () => {
    const { offer, sent, end } = start({ concurrency: 2, perWebhook: 1 });
    await offer('a1', 'b1', 'a2', 'b2', 'c1');
    for (const id of ['a1', 'b1', 'a2']) await end(id);

    expect(sent).to.deep.equal(['a1', 'b1', 'a2', 'b2', 'c1']);
  });

  it('takes no more of a webhook than its places and its prefetch, and says when there is room', async () => {
    const { offer, rooms, roomsInAll, end, dispatcher } = start({ concurrency: 8 });
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
    expect(dispatcher.room(webhook('a'))).to.equal(0);
    expect(dispatcher.room(webhook('b'))).to.equal(4);
    await end('a1');

    expect(rooms).to.deep.equal(['a']);
    expect(roomsInAll()).to.equal(1);
    expect(dispatcher.room(webhook('a'))).to.be.at.least(1);
  });

  it('keeps no room for a webhook that has nothing left', async () => {
    const { offer, end, sent, dispatcher } = start({ concurrency: 8 });
    for (let i = 10; i < 40; i += 1) {
      await offer(`a${i}`);
      expect(dispatcher.room(webhook('a'))).to.be.at.least(1);
      await end(`a${i}`);
    }
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
    expect(sent.slice(-2)).to.deep.equal(['a1', 'a2']);
    expect(dispatcher.room(webhook('b'))).to.equal(4);
    expect(await offer('b1', 'b2', 'b3', 'b4', 'b5')).to.deep.equal(['b1', 'b2', 'b3', 'b4']);
  });

  it('asks for more of a webhook once half of its prefetch is used, and then for all it has room for', async () => {
    const { offer, end, dispatcher } = start({ concurrency: 100 });
    await offer('a1', 'a2', 'a3', 'a4');
    expect(dispatcher.wanted(webhook('a'))).to.equal(0);
    expect(dispatcher.wanted(webhook('b'))).to.equal(4);
    await end('a1');
    await end('a2');

    expect(dispatcher.wanted(webhook('a')))
      .to.equal(dispatcher.room(webhook('a')))
      .and.be.above(1);
  });

  it('asks for more of any webhook once half of the total prefetch is used', async () => {
    const { offer, end, dispatcher } = start({ concurrency: 2 });
    await offer('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1');
    expect([dispatcher.wantedInAll(), dispatcher.room(webhook('i'))]).to.deep.equal([0, 2]);
    for (const id of ['a1', 'b1', 'c1']) await end(id);

    expect(dispatcher.wantedInAll()).to.equal(5);
  });

  it('never holds the same delivery twice', async () => {
    const { offer, prepared, sent } = start();
    await offer('a1', 'a1', 'a2', 'a3', 'a3');

    expect(prepared).to.deep.equal(['a1', 'a2', 'a3']);
    expect(sent).to.deep.equal(['a1', 'a2']);
  });

  it('frees the place of an attempt before its outcome is recorded', async () => {
    const { offer, end, sent, recorded } = start({ concurrency: 1, perWebhook: 1 });
    await offer('a1', 'b1');
    await end('a1');

    expect([sent, recorded]).to.deep.equal([['a1', 'b1'], ['a1']]);
  });

  it('releases an attempt that finds no place in time, and stops the prefetch of its webhook', async () => {
    const { offer, givenBack, sent, dispatcher, end } = start({ maxWait: 20 });
    await offer('a1', 'a2', 'a3');
    // longer than maxWait
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(givenBack).to.deep.equal(['a3']);
    expect(dispatcher.room(webhook('a'))).to.equal(0);
    await end('a1');

    expect(dispatcher.room(webhook('a')), 'a place, and hardly more').to.be.within(1, 2);
    expect(sent).to.deep.equal(['a1', 'a2']);
  });

  it('frees the room of an attempt that could not be claimed', async () => {
    const { dispatcher, ref, rooms } = start();
    expect(await dispatcher.offer(ref('a1'), async () => null)).to.equal(false);
    await new Promise((resolve) => setImmediate(resolve));

    expect(rooms).to.deep.equal(['a']);
    expect(dispatcher.room(webhook('a'))).to.equal(4);
  });

  it('starts nothing after it closes, releases waiting attempts, and waits for running ones', async () => {
    const { dispatcher, offer, sent, givenBack, recorded, end } = start({ concurrency: 1 });
    await offer('a1', 'b1');
    let closed = false;
    const closing = dispatcher.close().then(() => {
      closed = true;
    });
    await offer('c1');
    expect(closed).to.equal(false);
    await end('a1');
    await closing;

    expect([sent, givenBack, recorded]).to.deep.equal([['a1'], ['b1'], ['a1']]);
  });

  it('sends no more at once to an account than its share, and to a new account at once', async () => {
    const { offer, sent } = start({ concurrency: 8, perAccount: 2 });
    await offer('Xa1', 'Xa2', 'Xb1', 'Xc1', 'Xd1');
    expect(sent).to.deep.equal(['Xa1', 'Xb1']);
    await offer('Ya1');

    expect(sent).to.deep.equal(['Xa1', 'Xb1', 'Ya1']);
  });

  it('holds no more of an account than its share and its prefetch', async () => {
    const { dispatcher, offer } = start({ concurrency: 8, perAccount: 2 });
    const ids = Array.from({ length: 12 }, (_, i) => `X${String.fromCharCode(97 + i)}1`);
    const taken = await offer(...ids);

    expect(taken).to.deep.equal(ids.slice(0, 10));
    expect([dispatcher.wantedOf('X'), dispatcher.room(webhook('Xz'))]).to.deep.equal([0, 0]);
    expect(dispatcher.wantedOf('Y')).to.be.above(0);
  });

  it('serves accounts in turn, however many attempts one of them has waiting', async () => {
    const { offer, sent, end } = start({ concurrency: 2, perWebhook: 1 });
    await offer('Xa1', 'Xb1', 'Xc1', 'Xd1', 'Ya1', 'Yb1');
    for (const id of ['Xa1', 'Xb1', 'Xc1', 'Ya1']) await end(id);

    expect(sent).to.deep.equal(['Xa1', 'Xb1', 'Xc1', 'Ya1', 'Xd1', 'Yb1']);
  });

  it('leaves places to a healthy webhook when others of its account hang', async () => {
    const { offer, sent, givenBack, end } = start({ concurrency: 100, perAccount: 8, perWebhook: 8, maxWait: 20 });
    await offer(...['Xa', 'Xb'].flatMap((id) => Array.from({ length: 8 }, (_, i) => `${id}${i}`)));
    expect(sent).to.have.length.below(8);
    // longer than maxWait
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(givenBack.length + sent.length).to.equal(16);
    for (const id of ['Xc1', 'Xc2']) {
      await offer(id);
      expect(sent.at(-1)).to.equal(id);
      await end(id);
    }
  });
});
