import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createDueAttempts } from '../../../src/deliveries/due-reads.ts';
import { createDeliveryModel, type DeliveryDocument, type DeliveryModel } from '../../../src/deliveries/model.ts';
import { aggregatedRanges } from '../../support/database/aggregated-ranges.ts';
import { freshDatabase } from '../../support/mongo.ts';

const past = new Date(Date.now() - 60_000);
const later = new Date(Date.now() + 3_600_000);

function delivery(_id: string, webhookId: string, claimableAt: Date): DeliveryDocument {
  return {
    _id,
    eventId: 'evt_1',
    webhookId,
    userId: 'usr_1',
    type: 'payment.completed',
    test: false,
    state: 'pending',
    attempt: 1,
    maxAttempts: 6,
    starts: 0,
    dueAt: claimableAt,
    claimableAt,
    lease: null,
    attempts: [],
    createdAt: past,
  };
}

const noEvents = { coll: 'gateway_events', pipeline: [] };

interface Plan {
  readonly stage?: string;
  readonly indexName?: string;
  readonly keysExamined?: number;
}

/** Every stage, wherever in the answer to an explain it stands. */
function stagesIn(node: unknown): Plan[] {
  if (typeof node !== 'object' || node === null) return [];
  const inner = Object.entries(node).flatMap(([key, value]) => (key === 'rejectedPlans' ? [] : stagesIn(value)));
  return 'stage' in node ? [node as Plan, ...inner] : inner;
}

describe('What is due', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let deliveries: DeliveryModel;

  before(async () => {
    database = await freshDatabase();
    connection = await mongoose.createConnection(database.uri, { monitorCommands: true }).asPromise();
    deliveries = createDeliveryModel(connection, 'gateway_');
    await deliveries.createIndexes();
  });
  after(async () => {
    await connection.close();
    await database.drop();
  });

  const dueAttempts = (lookAhead?: number) => createDueAttempts(deliveries, lookAhead);

  async function store(...documents: DeliveryDocument[]): Promise<void> {
    await deliveries.collection.deleteMany({});
    await deliveries.collection.insertMany(documents as never[]);
  }

  it('is found for each webhook up to its share, longest due first', async () => {
    const at = (seconds: number) => new Date(past.getTime() + seconds * 1_000);
    await store(
      ...[3, 1, 2].map((n) => delivery(`dlv_a${n}`, 'wh_a', at(n))),
      delivery('dlv_b1', 'wh_b', at(9)),
      delivery('dlv_c1', 'wh_c', at(0)),
      delivery('dlv_b2', 'wh_b', later),
    );
    const shares = new Map([
      ['wh_a', 2],
      ['wh_b', 5],
    ]);
    const refs = await dueAttempts().ofWebhooks(shares);

    expect(refs.map(({ deliveryId }) => deliveryId)).to.deep.equal(['dlv_a1', 'dlv_a2', 'dlv_b1']);
  });

  it('is found before it is due by a look that looks ahead, unless it is claimed, whatever has been due for longer', async () => {
    const soon = new Date(Date.now() + 160_000);
    const claimed = { owner: 'wrk_2', token: 'token', startedAt: past };
    await store(
      ...Array.from({ length: 5 }, (_, i) => delivery(`dlv_${i}`, 'wh_d', past)),
      delivery('dlv_a1', 'wh_a', soon),
      delivery('dlv_b1', 'wh_b', later),
      { ...delivery('dlv_c1', 'wh_c', soon), lease: claimed },
    );
    const [ahead, blind] = [
      await dueAttempts(200_000).look(null, 2, noEvents),
      await dueAttempts().look(null, 2, null),
    ];

    expect(ahead.webhookIds).to.deep.equal(['wh_d']);
    const [{ wait, ...ref } = expect.fail('nothing is found'), ...more] = ahead.coming;
    expect(ref).to.deep.equal({ deliveryId: 'dlv_a1', webhookId: 'wh_a', userId: 'usr_1', attempt: 1 });
    expect(wait).to.be.within(1, 160_000);
    expect(more).to.deep.equal([]);
    expect(blind.coming).to.deep.equal([]);
    expect(await dueAttempts(200_000).ofWebhooks(new Map(['wh_a', 'wh_b', 'wh_c'].map((id) => [id, 5])))).to.deep.equal(
      [],
    );
  });

  it('includes every webhook, page by page, even if a thousand are due at the same moment', async () => {
    const webhookIds = Array.from({ length: 1_000 }, (_, i) => `wh_${String(i).padStart(4, '0')}`);
    await store(
      ...webhookIds.map((webhookId, i) => delivery(`dlv_${i}`, webhookId, past)),
      delivery('dlv_later', 'wh_later', later),
    );
    const due = dueAttempts();
    const named: string[] = [];
    let pages = 0;
    for (let next: Parameters<typeof due.look>[0] = null, more = true; more; more = next !== null) {
      const page = await due.look(next, 300, noEvents);
      named.push(...page.webhookIds);
      next = page.next;
      pages += 1;
    }

    expect(named.sort()).to.deep.equal(webhookIds);
    expect(pages).to.equal(4);
  });

  it('is read from an index range, at the same cost with 100,000 pending as with 100', async function () {
    this.timeout(60_000);
    const costs: number[][] = [];
    for (const count of [100, 100_000]) {
      await store(delivery('dlv_due', 'wh_7', past));
      for (let i = 0; i < count; i += 10_000) {
        const batch = Math.min(10_000, count);
        const some = Array.from({ length: batch }, (_, n) => delivery(`dlv_${i + n}`, `wh_${n % 50}`, later));
        await deliveries.collection.insertMany(some as never[]);
      }
      const due = dueAttempts(1_000);
      const shares = new Map([['wh_7', 20]]);
      const pipelines = await aggregatedRanges(connection, async () => {
        await due.look(null, 1_000, null);
        expect(await due.ofWebhooks(shares)).to.have.length(1);
      });
      expect(pipelines).to.have.length(3);
      const plans = await Promise.all(
        pipelines.map(async (pipeline) =>
          stagesIn(await deliveries.collection.aggregate(pipeline as never).explain('executionStats')),
        ),
      );
      for (const [i, index] of ['due', 'due', 'dueOfWebhook'].entries()) {
        const names = new Set(plans[i]?.map(({ stage }) => stage));
        expect(new Set(plans[i]?.flatMap(({ indexName }) => indexName ?? []))).to.deep.equal(new Set([index]));
        expect(names).not.to.include('SORT');
        expect(names).not.to.include('COLLSCAN');
      }
      const { cost } = await keysExamined(pipelines);
      costs.push(cost);
    }

    expect(costs[1]).to.deep.equal(costs[0]);
  });

  /** Keys of the index that each pipeline looks at. */
  async function keysExamined(pipelines: object[][]): Promise<{ cost: number[] }> {
    const cost = await Promise.all(
      pipelines.map(async (pipeline) => {
        const text = JSON.stringify(await deliveries.collection.aggregate(pipeline as never).explain('executionStats'));
        return Number(/"totalKeysExamined":(\d+)/.exec(text)?.[1]);
      }),
    );
    return { cost };
  }
});
