import { expect } from 'chai';
import { type Bell, createIntake } from '../../src/deliveries/intake.ts';

describe('The intake of attempts', () => {
  /** An intake whose attempts end when the test says so. */
  function start(choices = {}) {
    const started: string[] = [];
    const ends = new Map<string, () => void>();
    let spaces = 0;
    const intake = createIntake({
      concurrency: 4,
      perWebhook: 2,
      waitingPerWebhook: 3,
      run: ({ deliveryId }) => {
        started.push(deliveryId);
        return new Promise<void>((resolve) => ends.set(deliveryId, resolve));
      },
      onSpace: () => {
        spaces += 1;
      },
      ...choices,
    });
    const bell = (deliveryId: string): Bell => ({ deliveryId, webhookId: deliveryId.slice(0, 1), attempt: 1 });
    return {
      intake,
      started,
      spaces: () => spaces,
      offer: (...ids: string[]) => ids.map((id) => intake.offer(bell(id))),
      async end(id: string) {
        ends.get(id)?.();
        await new Promise((resolve) => setImmediate(resolve));
      },
    };
  }

  it('gives no webhook more than its share, and the others the rest', () => {
    const { offer, started, intake } = start();
    offer('a1', 'a2', 'a3', 'b1', 'c1', 'd1');

    expect(started).to.deep.equal(['a1', 'a2', 'b1', 'c1']);
    expect(intake.full()).to.deep.equal(['a']);
    expect(intake.hasSpace()).to.equal(false);
  });

  it('starts what waits as places come free, one webhook after the other', async () => {
    const { offer, started, end } = start({ concurrency: 1 });
    offer('a1', 'a2', 'a3', 'b1', 'c1');
    for (const id of ['a1', 'a2', 'b1', 'c1']) await end(id);

    expect(started).to.deep.equal(['a1', 'a2', 'b1', 'c1', 'a3']);
  });

  it('never has the same delivery twice', () => {
    const { offer, started } = start();
    offer('a1', 'a1', 'a2', 'a3', 'a3');

    expect(started).to.deep.equal(['a1', 'a2']);
  });

  it('says when too many wait, and when there is space again', async () => {
    const { offer, end, spaces } = start({ concurrency: 1 });
    expect(offer('a1', 'a2', 'a3', 'a4', 'a5')).to.deep.equal([true, true, true, true, false]);
    for (const id of ['a1', 'a2', 'a3']) await end(id);
    expect(spaces()).to.equal(0);
    await end('a4');

    expect(spaces()).to.equal(1);
  });

  it('starts nothing more once it closes, and waits for what runs', async () => {
    const { intake, offer, started, end } = start({ concurrency: 1 });
    offer('a1', 'b1');
    let closed = false;
    const closing = intake.close().then(() => {
      closed = true;
    });
    offer('c1');
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).to.equal(false);
    await end('a1');
    await closing;

    expect(started).to.deep.equal(['a1']);
  });
});
