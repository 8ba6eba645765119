import { expect } from 'chai';
import type { Attempts } from '../../../src/deliveries/attempt.ts';
import type { ClaimableAttempts } from '../../../src/deliveries/due-reads.ts';
import type { Jobs } from '../../../src/deliveries/jobs.ts';
import type { AttemptRef } from '../../../src/deliveries/model.ts';
import { createWorker } from '../../../src/deliveries/worker/worker.ts';
import { settled } from '../../events/harness.ts';
import { silentLogger } from '../../support/logger.ts';

const webhook = { webhookId: 'wh_1', userId: 'usr_1' };
const ref = (deliveryId: string): AttemptRef => ({ ...webhook, deliveryId, attempt: 1 });
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('The attempt that has been due longest', () => {
  /** A worker over deliveries in memory; each look at what is due ends when the test says so. */
  async function start(due: number) {
    const waiting = Array.from({ length: due }, (_, i) => `old ${i}`);
    const looks: (() => void)[] = [];
    const ready = { send: async () => async () => {}, giveBack: async () => {} };
    const held = new Set<string>();
    const worker = createWorker({
      concurrency: 4,
      concurrencyPerAccount: 4,
      concurrencyPerWebhook: 2,
      sweepInterval: 3_600_000,
      attempts: {
        async prepare({ deliveryId }: AttemptRef) {
          waiting.splice(waiting.indexOf(deliveryId), 1);
          await turn();
          return ready;
        },
        async prepareFirst({ claim }: { claim: { delivery: { _id: string } } }) {
          held.add(claim.delivery._id);
          // a database that is slow
          for (let i = 0; i < 3; i += 1) await turn();
          return ready;
        },
      } as unknown as Attempts,
      due: {
        look: async () => ({ webhookIds: [], next: null, events: [] }),
        async ofWebhooks(shares: ReadonlyMap<string, number>) {
          await new Promise<void>((resolve) => looks.push(resolve));
          return waiting.slice(0, shares.get(webhook.webhookId) ?? 0).map(ref);
        },
      } as unknown as ClaimableAttempts,
      watches: [],
      fanOuts: {
        outbox: { unfinished: () => ({ coll: 'events', pipeline: [] }) },
        take: async () => [],
        lease: 4_500,
        settleSubscribers: settled,
        fanOut: async () => {},
        heldEvents: { room: 1 },
      },
      expireEvents: async () => {},
      jobs: {
        scheduleWaiting() {},
        remove: async () => {},
        start: async () => {},
        stop: async () => {},
      } as Partial<Jobs> as Jobs,
      logger: silentLogger,
    });
    await worker.start();
    worker.onDue(webhook);
    /** New deliveries: each begins at once where there is room. */
    function publish(count: number): void {
      for (let i = 0; i < count && worker.hasRoom(webhook); i += 1) {
        const delivery = { ...ref(`new ${held.size}`), _id: `new ${held.size} ${i} ${Math.random()}` };
        worker.handOver({ claim: { delivery } } as never);
      }
    }
    return { worker, waiting, held, publish, endLook: () => looks.shift()?.() };
  }

  it('begins even if new deliveries arrive all the time', async () => {
    const { worker, waiting, held, publish, endLook } = await start(300);
    for (let round = 0; round < 2_000 && waiting.length > 0; round += 1) {
      publish(1_000);
      await turn();
      publish(1_000);
      endLook();
      await turn();
    }
    expect(waiting).to.deep.equal([]);
    for (let i = 0; i < 100 && !worker.hasRoom(webhook); i += 1) {
      endLook();
      await turn();
    }
    const before = held.size;
    publish(1_000);
    expect(held.size).to.be.above(before);
    for (let i = 0; i < 10; i += 1) {
      endLook();
      await turn();
    }
    await worker.close();
  });

  it('is found even if new deliveries take most of the room when it becomes due', async () => {
    const { worker, waiting, publish, endLook } = await start(0);
    publish(1_000);
    waiting.push('old');
    worker.onDue(webhook);
    for (let round = 0; round < 200 && waiting.length > 0; round += 1) {
      publish(1_000);
      await turn();
      publish(1_000);
      endLook();
    }
    expect(waiting).to.deep.equal([]);
    for (let i = 0; i < 10; i += 1) {
      endLook();
      await turn();
    }
    await worker.close();
  });
});
