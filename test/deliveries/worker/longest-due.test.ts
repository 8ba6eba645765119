import { expect } from 'chai';
import type { FirstAttempt } from '../../../src/deliveries/attempt.ts';
import type { AttemptRef } from '../../../src/deliveries/claims.ts';
import { Scheduler } from '../../../src/deliveries/scheduler.ts';
import { silentLogger } from '../../support/logger.ts';

const webhook = { webhookId: 'wh_1', userId: 'usr_1' };
const ref = (deliveryId: string): AttemptRef => ({ ...webhook, deliveryId, attempt: 1 });
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('The attempt that has been due longest', () => {
  /** A scheduler over deliveries in memory; each read of what is due ends when the test says so. */
  function start(due: number) {
    const waiting = Array.from({ length: due }, (_, i) => `old ${i}`);
    const reads: (() => void)[] = [];
    const ready = { send: async () => async () => undefined, giveBack: async () => {} };
    const held = new Set<string>();
    const scheduler = new Scheduler({
      concurrency: 4,
      concurrencyPerAccount: 4,
      concurrencyPerWebhook: 2,
      attempts: {
        prepare({ deliveryId }) {
          waiting.splice(waiting.indexOf(deliveryId), 1);
          return { isClaimed: turn().then(() => true), prepared: turn().then(() => ({ ready })) };
        },
        async prepareFirst({ claim }) {
          held.add(claim.delivery._id);
          // a database that is slow
          for (let i = 0; i < 3; i += 1) await turn();
          return { ready };
        },
      },
      due: {
        async ofWebhooks(shares) {
          await new Promise<void>((resolve) => reads.push(resolve));
          return waiting.slice(0, shares.get(webhook.webhookId) ?? 0).map(ref);
        },
      },
      logger: silentLogger,
    });
    scheduler.start();
    scheduler.look(webhook);
    /** New deliveries: each begins at once where there is room. */
    function publish(count: number): void {
      for (let i = 0; i < count && scheduler.hasRoom(webhook); i += 1) {
        const _id = `new ${held.size} ${i} ${Math.random()}`;
        void scheduler.first(ref(_id), () => ({ claim: { delivery: { _id } } }) as FirstAttempt);
      }
    }
    return { scheduler, waiting, held, publish, endRead: () => reads.shift()?.() };
  }

  /** Ends what is under way. */
  async function close({ scheduler, endRead }: Pick<ReturnType<typeof start>, 'scheduler' | 'endRead'>) {
    for (let i = 0; i < 10; i += 1) {
      endRead();
      await turn();
    }
    const closing = scheduler.close();
    endRead();
    await closing;
  }

  it('begins even if new deliveries arrive all the time', async () => {
    const { scheduler, waiting, held, publish, endRead } = start(300);
    for (let round = 0; round < 2_000 && waiting.length > 0; round += 1) {
      publish(1_000);
      await turn();
      publish(1_000);
      endRead();
      await turn();
    }
    expect(waiting).to.deep.equal([]);
    for (let i = 0; i < 100 && !scheduler.hasRoom(webhook); i += 1) {
      endRead();
      await turn();
    }
    const before = held.size;
    publish(1_000);
    expect(held.size).to.be.above(before);
    await close({ scheduler, endRead });
  });

  it('is found even if new deliveries take most of the room when it becomes due', async () => {
    const { scheduler, waiting, publish, endRead } = start(0);
    publish(1_000);
    waiting.push('old');
    scheduler.look(webhook);
    for (let round = 0; round < 200 && waiting.length > 0; round += 1) {
      publish(1_000);
      await turn();
      publish(1_000);
      endRead();
    }
    expect(waiting).to.deep.equal([]);
    await close({ scheduler, endRead });
  });
});
