import { expect } from 'chai';
import { type Bell, createIntake, type ReadyAttempt } from '../../src/deliveries/intake.ts';

describe('The intake of attempts', () => {
  /** An intake whose attempts end when the test says so. */
  function start(choices = {}) {
    const prepared: string[] = [];
    const sent: string[] = [];
    const givenBack: string[] = [];
    const recorded: string[] = [];
    const ends = new Map<string, () => void>();
    const rooms: string[] = [];
    let roomsInAll = 0;
    const intake = createIntake({
      concurrency: 4,
      perWebhook: 2,
      patience: 10_000,
      onRoom: (webhookId) => rooms.push(webhookId),
      onRoomInAll: () => {
        roomsInAll += 1;
      },
      ...choices,
    });
    async function prepare({ deliveryId }: Bell): Promise<ReadyAttempt> {
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
    const bell = (deliveryId: string): Bell => ({ deliveryId, webhookId: deliveryId.slice(0, 1), attempt: 1 });
    return {
      intake,
      prepared,
      sent,
      givenBack,
      recorded,
      rooms,
      roomsInAll: () => roomsInAll,
      bell,
      /** Which of them were taken. */
      async offer(...ids: string[]): Promise<string[]> {
        const taken = ids.map((id) => intake.offer(bell(id), prepare));
        await turn();
        return ids.filter((_, i) => taken[i] !== null);
      },
      async end(id: string) {
        ends.get(id)?.();
        await turn();
      },
    };
  }

  it('sends no more at once to a webhook than its share, and gives the others the rest', async () => {
    const { offer, sent } = start();
    await offer('a1', 'a2', 'a3', 'b1', 'c1', 'd1');

    expect(sent).to.deep.equal(['a1', 'a2', 'b1', 'c1']);
  });

  it('holds what is claimed ahead until a place comes free, one webhook after the other', async () => {
    const { offer, sent, end } = start({ concurrency: 2, perWebhook: 1 });
    await offer('a1', 'b1', 'a2', 'b2', 'c1');
    for (const id of ['a1', 'b1', 'a2']) await end(id);

    expect(sent).to.deep.equal(['a1', 'b1', 'a2', 'b2', 'c1']);
  });

  it('takes no more of a webhook than it has places and is claimed ahead for, and says when there is room', async () => {
    const { offer, rooms, roomsInAll, end, intake } = start();
    expect(await offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
    expect(intake.room('a')).to.equal(0);
    expect(intake.room('b')).to.equal(4);
    await end('a1');

    expect(rooms).to.deep.equal(['a']);
    expect(roomsInAll()).to.equal(1);
    expect(intake.room('a')).to.be.at.least(1);
  });

  it('wants more of a webhook once half of what is claimed ahead is used up, and then all there is room for', async () => {
    const { offer, end, intake } = start({ concurrency: 100 });
    await offer('a1', 'a2', 'a3', 'a4');
    expect(intake.wanted('a')).to.equal(0);
    expect(intake.wanted('b')).to.equal(4);
    await end('a1');
    await end('a2');

    expect(intake.wanted('a')).to.equal(intake.room('a')).and.be.above(1);
  });

  it('wants more of whatever webhook once half of what is claimed ahead in all is used up', async () => {
    const { offer, end, intake } = start({ concurrency: 2 });
    await offer('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1');
    expect([intake.wantedInAll(), intake.room('i')]).to.deep.equal([0, 2]);
    for (const id of ['a1', 'b1', 'c1']) await end(id);

    expect(intake.wantedInAll()).to.equal(5);
  });

  it('never has the same delivery twice', async () => {
    const { offer, prepared, sent } = start();
    await offer('a1', 'a1', 'a2', 'a3', 'a3');

    expect(prepared).to.deep.equal(['a1', 'a2', 'a3']);
    expect(sent).to.deep.equal(['a1', 'a2']);
  });

  it('records an attempt when its place is free already', async () => {
    const { offer, end, sent, recorded } = start({ concurrency: 1, perWebhook: 1 });
    await offer('a1', 'b1');
    await end('a1');

    expect([sent, recorded]).to.deep.equal([['a1', 'b1'], ['a1']]);
  });

  it('gives back what finds no place in time, and claims nothing ahead for that webhook any more', async () => {
    const { offer, givenBack, sent, intake, end } = start({ patience: 20 });
    await offer('a1', 'a2', 'a3');
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(givenBack).to.deep.equal(['a3']);
    expect(intake.room('a')).to.equal(0);
    await end('a1');

    expect(intake.room('a'), 'a place, and hardly more').to.be.within(1, 2);
    expect(sent).to.deep.equal(['a1', 'a2']);
  });

  it('frees the room of an attempt that turned out to be nobody’s to make', async () => {
    const { intake, bell, rooms } = start();
    expect(await intake.offer(bell('a1'), async () => null)).to.equal(false);
    await new Promise((resolve) => setImmediate(resolve));

    expect(rooms).to.deep.equal(['a']);
    expect(intake.room('a')).to.equal(4);
  });

  it('starts nothing more once it closes, gives back what waits, and waits for what is under way', async () => {
    const { intake, offer, sent, givenBack, recorded, end } = start({ concurrency: 1 });
    await offer('a1', 'b1');
    let closed = false;
    const closing = intake.close().then(() => {
      closed = true;
    });
    await offer('c1');
    expect(closed).to.equal(false);
    await end('a1');
    await closing;

    expect([sent, givenBack, recorded]).to.deep.equal([['a1'], ['b1'], ['a1']]);
  });
});
